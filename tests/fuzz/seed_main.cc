// Valid inputs that are too large to keep as files: packages and tokenizers. seed_main FOLDER
// writes FOLDER/package, FOLDER/c_runtime and FOLDER/tokenizer.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/package.h"
#include "kernels/elq_runtime.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_package.h"

namespace {

namespace fs = std::filesystem;
using elastiq::testing::AlignedBytes;

void put(const fs::path& path, const void* bytes, std::size_t size) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

/// The same sections through the C++ writer, with a tokenizer section that zstd can make smaller.
bool put_compressed(const fs::path& path, const AlignedBytes& image, const std::string& tokenizer) {
  elq_header header;
  std::memcpy(&header, image.data(), sizeof header);
  const auto* entries = reinterpret_cast<const elq_toc_entry*>(image.data() + header.toc_offset);
  std::vector<elastiq::SectionToWrite> sections;
  for (std::uint32_t i = 0; i < header.toc_count; ++i) {
    elastiq::SectionToWrite section;
    section.type = entries[i].type;
    const bool compressed = section.type == ELQ_SECTION_TOKZ;
    section.parts = {std::as_bytes(
        compressed ? std::span(tokenizer.data(), tokenizer.size())
                   : std::span(reinterpret_cast<const char*>(image.data()) + entries[i].offset,
                               entries[i].stored_bytes))};
    if (compressed) section.compression = elastiq::SectionToWrite::Compression::kZstdIfSmaller;
    sections.push_back(section);
  }
  const auto made = elastiq::package_image(sections, 1, 2);
  if (made.ok()) put(path, made.value().data(), made.value().size());
  return made.ok();
}

/// The model's package with golden vectors of three tokens.
bool put_package(const fs::path& folder, const char* name,
                 const elastiq::testing::TinyShape& shape) {
  const auto tiny = elastiq::testing::tiny_model(shape, elastiq::testing::mixed_schemes, 11);
  const AlignedBytes plain = elastiq::testing::package_of(tiny);
  elq_model* model = nullptr;
  if (elq_model_open(plain.data(), plain.size(), &model, nullptr) != ELQ_OK) return false;
  const std::uint32_t tokens[3] = {1, 2, 3};
  std::vector<std::uint8_t> kat(elq_kat_bytes(model, 3));
  const bool made = elq_kat_write(model, tokens, 3, kat.data()) == ELQ_OK;
  elq_model_close(model);
  const AlignedBytes image = elastiq::testing::package_of(tiny, kat);
  put(folder / "c_runtime" / name, image.data(), image.size());
  const std::string tokenizer = elastiq::testing::hf_tokenizer_json(300);
  return made && put_compressed(folder / "package" / name, image, tokenizer);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const fs::path folder = arguments[1];
  const std::string tokenizer = elastiq::testing::hf_tokenizer_json(300);
  put(folder / "tokenizer" / "byte-level-300.json", tokenizer.data(), tokenizer.size());
  const bool made = put_package(folder, "t1.elq", elastiq::testing::tiny_t1()) &&
                    put_package(folder, "t2.elq", elastiq::testing::tiny_t2());
  return made ? 0 : 1;
}
