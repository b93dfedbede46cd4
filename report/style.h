#pragma once

#include <string_view>

namespace elastiq {

/// The style sheet of the HTML report. Colours: kinds and roles from the Okabe-Ito set (told apart
/// in all common colour-vision deficiencies), bits a single-hue ramp.
std::string_view report_style();

}  // namespace elastiq
