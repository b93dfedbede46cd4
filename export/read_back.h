#pragma once

#include <filesystem>

#include "core/error.h"
#include "core/thread_pool.h"
#include "export/pack_model.h"
#include "export/strip.h"

namespace elastiq {

/// Opens the written package with the strict reader and with the C runtime and compares it with
/// what it was made from: digests and pads (Package::verify), scheme of every matrix against
/// quantization.json's plan, every code, every dequantized weight bit for bit, every float tensor
/// byte for byte, and the golden vectors with every implementation this CPU has.
/// Errors  kVerification with the tensor and the first place that differs.
Status read_back(const std::filesystem::path& package, const ExportSource& source,
                 const PackedModel& model, ThreadPool& pool);

}  // namespace elastiq
