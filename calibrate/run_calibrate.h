#pragma once

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "model/data_options.h"
#include "model/matmul_type.h"

namespace elastiq {

struct CalibrateOptions {
  std::filesystem::path model;
  DataOptions data;
  std::filesystem::path out;
  MatmulType matmul = MatmulType::kF32;
  int threads = 2;
};

/// The stage: checkpoint + text -> statistics folder. Returns stage.json's content.
/// Errors  those of its readers; kTooLittleData; kInternal when a layer saw other tokens than the
/// data has.
Result<Json> run_calibrate(const CalibrateOptions& options);

}  // namespace elastiq
