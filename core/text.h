#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace elastiq {

/// Text for HTML and SVG, element content and quoted attributes alike: & < > " ' are escaped,
/// control characters become U+FFFD.
std::string escape_html(std::string_view text);

/// Text for one cell of a Markdown table: HTML, pipes, links and emphasis lose their meaning, line
/// ends become spaces.
std::string escape_markdown(std::string_view text);

/// Control characters, escape sequences among them, become '?': a name from a file must not drive
/// the reader's terminal.
std::string escape_terminal(std::string_view text);

/// Decimal units: "812 B", "1.52 MB".
std::string format_bytes(double bytes);

/// Four significant digits without an exponent between 1e-4 and 1e7: "0.01234", "22.87", "1284".
std::string format_number(double value);

/// A share as "97.1 %".
std::string format_percent(double share);

/// "412 ms", "12.3 s", "4 min 05 s", "1 h 02 min".
std::string format_seconds(double seconds);

/// Display columns of UTF-8 text, one per code point.
std::size_t display_width(std::string_view text);

}  // namespace elastiq
