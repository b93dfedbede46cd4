#include <zstd.h>

#include <array>
#include <cstring>
#include <memory>

#include "formats/package_internal.h"

namespace elastiq::package {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }

  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// A frame, as opposed to a skippable one, which would hide bytes. Source: RFC 8878, 3.1.1.
constexpr std::array<std::uint8_t, 4> kFrameMagic = {0x28, 0xb5, 0x2f, 0xfd};

Error zstd_failed(const char* what, std::size_t code) {
  return refuse(ErrorCode::kResources, "zstd", 0,
                std::string(what) + " failed: " + ZSTD_getErrorName(code));
}

}  // namespace

Result<std::vector<std::byte>> zstd_compress(std::span<const std::span<const std::byte>> parts,
                                             std::uint64_t raw_bytes, int level) {
  std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 1);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 0);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), raw_bytes);
  std::vector<std::byte> out(ZSTD_compressBound(raw_bytes));
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  for (const std::span<const std::byte> part : parts) {
    ZSTD_inBuffer input{part.data(), part.size(), 0};
    while (input.pos < input.size) {
      const std::size_t code =
          ZSTD_compressStream2(context.get(), &output, &input, ZSTD_e_continue);
      if (ZSTD_isError(code) != 0) return zstd_failed("compression", code);
    }
  }
  ZSTD_inBuffer nothing{nullptr, 0, 0};
  const std::size_t left = ZSTD_compressStream2(context.get(), &output, &nothing, ZSTD_e_end);
  if (ZSTD_isError(left) != 0 || left != 0) return zstd_failed("compression", left);
  out.resize(output.pos);
  return out;
}

Result<std::vector<std::byte>> zstd_inflate(std::span<const std::byte> stored,
                                            std::uint64_t raw_bytes, const std::string& subject,
                                            std::uint64_t offset) {
  auto bad = [&](const std::string& detail) {
    return refuse(ErrorCode::kVerification, subject, offset, "zstd section: " + detail);
  };
  if (stored.size() < kFrameMagic.size() ||
      std::memcmp(stored.data(), kFrameMagic.data(), kFrameMagic.size()) != 0) {
    return bad("stored bytes do not begin with a frame");
  }
  const unsigned long long declared = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (declared == ZSTD_CONTENTSIZE_UNKNOWN || declared == ZSTD_CONTENTSIZE_ERROR ||
      declared != raw_bytes) {
    return bad("the frame's content size must be " + std::to_string(raw_bytes));
  }
  const std::size_t frame = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
  if (ZSTD_isError(frame) != 0 || frame != stored.size()) {
    return bad("stored bytes are not exactly one frame");
  }
  std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  std::vector<std::byte> raw(raw_bytes);
  const std::size_t n =
      ZSTD_decompressDCtx(context.get(), raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(n) != 0) return bad(ZSTD_getErrorName(n));
  if (n != raw_bytes) return bad("inflates to " + std::to_string(n) + " bytes");
  return raw;
}

}  // namespace elastiq::package
