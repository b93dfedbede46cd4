#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"
#include "export/strip.h"
#include "formats/package.h"
#include "kernels/elq_layout.h"

namespace elastiq {

/// Token facts of META.
struct TokenFacts {
  std::int64_t bos = -1;  ///< -1: none.
  std::int64_t eos = -1;
  enum class AddBos { kNo, kYes } add_bos = AddBos::kNo;
};

/// A tensor as it will be stored.
struct PackedTensor {
  const ExportTensor* source = nullptr;
  std::string name;
  elq_tensor_record record{};
  std::span<const std::byte> bytes;
  std::vector<std::byte> owned;  ///< bytes, unless they are the source's.
  std::string alias_of;          ///< Name of the tensor whose bytes this one shares; "" = none.
};

/// One WGT section: indices into PackedModel::tensors, in order of offset.
struct PackedSection {
  std::vector<std::size_t> tensors;
  std::uint64_t bytes = 0;
};

struct PackedModel {
  std::vector<PackedTensor> tensors;  ///< In order of the model; a tied head last.
  std::vector<PackedSection> weights;
  std::vector<std::byte> meta;
  std::vector<std::byte> records;  ///< TENS
  std::vector<std::byte> names;    ///< STRT

  /// META, TENS, STRT and the weight sections, which therefore have TOC indices from 3 on. Points
  /// into this object.
  std::vector<SectionToWrite> sections(SectionToWrite::Compression weights_compression) const;
};

/// Packs matrices into 16x4 cells, stores norms and biases as F32 and other matrices at their
/// source type, stores byte-identical tensors once, and cuts the weights into sections of at most
/// ELQ_MAX_WEIGHT_SECTION_BYTES at layer boundaries (a larger tensor alone). The result points into
/// the source. The same source gives the same bytes at any thread count.
/// Errors  kLimitExceeded, kInconsistent with the tensor's name.
Result<PackedModel> pack_model(const ExportSource& source, const TokenFacts& tokens,
                               const std::string& model_name, ThreadPool& pool);

}  // namespace elastiq
