// SPEC-package.md against kernels/elq_layout.h: every table both ways, and the worked example.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "formats/package_internal.h"
#include "kernels/elq_kernels.h"
#include "tests/support/small_package.h"

namespace elastiq::testing {
namespace {

using Row = std::vector<std::string>;

const std::string& spec() {
  static const std::string text = [] {
    std::ifstream file(std::filesystem::path(__FILE__).parent_path() /
                       "../../formats/SPEC-package.md");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Row cells_of(const std::string& line) {
  Row cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(trimmed(cell));
  return cells;
}

/// Rows of the first table after a line that begins with `heading`.
std::vector<Row> table(const std::string& heading) {
  std::istringstream in(spec());
  std::string line;
  while (std::getline(in, line) && line.rfind(heading, 0) != 0) {
  }
  while (std::getline(in, line) && line.rfind("|---", 0) != 0) {
  }
  std::vector<Row> rows;
  while (std::getline(in, line) && line.rfind('|', 0) == 0) rows.push_back(cells_of(line));
  return rows;
}

struct Field {
  const char* name;
  std::size_t offset;
  std::size_t bytes;
};

void expect_struct(const std::string& name, std::size_t size, const std::vector<Field>& fields) {
  const std::string heading = "### " + name + " (" + std::to_string(size) + " bytes)";
  const auto rows = table(heading);
  ASSERT_EQ(rows.size(), fields.size()) << heading;
  std::size_t end = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(rows[i].at(0), fields[i].name) << name;
    EXPECT_EQ(rows[i].at(1), std::to_string(fields[i].offset)) << name << "." << fields[i].name;
    EXPECT_EQ(rows[i].at(2), std::to_string(fields[i].bytes)) << name << "." << fields[i].name;
    EXPECT_EQ(fields[i].offset, end) << "a field is missing before " << fields[i].name;
    end = fields[i].offset + fields[i].bytes;
  }
  EXPECT_EQ(end, size) << name;
}

TEST(SpecTables, Header) {
  using T = elq_header;
  expect_struct("elq_header", sizeof(T),
                {{"magic", offsetof(T, magic), sizeof(T::magic)},
                 {"major", offsetof(T, major), sizeof(T::major)},
                 {"minor", offsetof(T, minor), sizeof(T::minor)},
                 {"header_bytes", offsetof(T, header_bytes), sizeof(T::header_bytes)},
                 {"file_bytes", offsetof(T, file_bytes), sizeof(T::file_bytes)},
                 {"toc_offset", offsetof(T, toc_offset), sizeof(T::toc_offset)},
                 {"toc_count", offsetof(T, toc_count), sizeof(T::toc_count)},
                 {"toc_entry_bytes", offsetof(T, toc_entry_bytes), sizeof(T::toc_entry_bytes)},
                 {"required_features", offsetof(T, required_features), 4},
                 {"optional_features", offsetof(T, optional_features), 4},
                 {"security_version", offsetof(T, security_version), 8},
                 {"build_id", offsetof(T, build_id), sizeof(T::build_id)},
                 {"toc_sha256", offsetof(T, toc_sha256), sizeof(T::toc_sha256)},
                 {"reserved", offsetof(T, reserved), sizeof(T::reserved)},
                 {"crc32c", offsetof(T, crc32c), sizeof(T::crc32c)}});
}

TEST(SpecTables, TocEntry) {
  using T = elq_toc_entry;
  expect_struct("elq_toc_entry", sizeof(T),
                {{"type", offsetof(T, type), sizeof(T::type)},
                 {"flags", offsetof(T, flags), sizeof(T::flags)},
                 {"offset", offsetof(T, offset), sizeof(T::offset)},
                 {"stored_bytes", offsetof(T, stored_bytes), sizeof(T::stored_bytes)},
                 {"raw_bytes", offsetof(T, raw_bytes), sizeof(T::raw_bytes)},
                 {"align_log2", offsetof(T, align_log2), sizeof(T::align_log2)},
                 {"crc32c", offsetof(T, crc32c), sizeof(T::crc32c)},
                 {"sha256", offsetof(T, sha256), sizeof(T::sha256)},
                 {"base_section_id", offsetof(T, base_section_id), sizeof(T::base_section_id)},
                 {"reserved", offsetof(T, reserved), sizeof(T::reserved)}});
}

TEST(SpecTables, MetaEntry) {
  using T = elq_meta_entry;
  expect_struct("elq_meta_entry", sizeof(T),
                {{"key", offsetof(T, key), sizeof(T::key)},
                 {"type", offsetof(T, type), sizeof(T::type)},
                 {"count", offsetof(T, count), sizeof(T::count)},
                 {"value", offsetof(T, value), sizeof(T::value)},
                 {"reserved", offsetof(T, reserved), sizeof(T::reserved)}});
}

TEST(SpecTables, TensorRecord) {
  using T = elq_tensor_record;
  expect_struct("elq_tensor_record", sizeof(T),
                {{"name_offset", offsetof(T, name_offset), sizeof(T::name_offset)},
                 {"name_bytes", offsetof(T, name_bytes), sizeof(T::name_bytes)},
                 {"role", offsetof(T, role), sizeof(T::role)},
                 {"layer", offsetof(T, layer), sizeof(T::layer)},
                 {"layout", offsetof(T, layout), sizeof(T::layout)},
                 {"bits", offsetof(T, bits), sizeof(T::bits)},
                 {"scale_mode", offsetof(T, scale_mode), sizeof(T::scale_mode)},
                 {"reserved0", offsetof(T, reserved0), sizeof(T::reserved0)},
                 {"z2", offsetof(T, z2), sizeof(T::z2)},
                 {"group", offsetof(T, group), sizeof(T::group)},
                 {"rows", offsetof(T, rows), sizeof(T::rows)},
                 {"cols", offsetof(T, cols), sizeof(T::cols)},
                 {"padded_rows", offsetof(T, padded_rows), sizeof(T::padded_rows)},
                 {"padded_cols", offsetof(T, padded_cols), sizeof(T::padded_cols)},
                 {"section", offsetof(T, section), sizeof(T::section)},
                 {"n_kept", offsetof(T, n_kept), sizeof(T::n_kept)},
                 {"offset", offsetof(T, offset), sizeof(T::offset)},
                 {"bytes", offsetof(T, bytes), sizeof(T::bytes)},
                 {"kept_offset", offsetof(T, kept_offset), sizeof(T::kept_offset)},
                 {"smax", offsetof(T, smax), sizeof(T::smax)},
                 {"alias_of", offsetof(T, alias_of), sizeof(T::alias_of)},
                 {"reserved", offsetof(T, reserved), sizeof(T::reserved)}});
}

TEST(SpecTables, GoldenVectors) {
  expect_struct("elq_kat_header", sizeof(elq_kat_header),
                {{"version", offsetof(elq_kat_header, version), 4},
                 {"n_matrices", offsetof(elq_kat_header, n_matrices), 4},
                 {"n_tokens", offsetof(elq_kat_header, n_tokens), 4},
                 {"reserved", offsetof(elq_kat_header, reserved), 4}});
  expect_struct("elq_kat_matrix", sizeof(elq_kat_matrix),
                {{"tensor", offsetof(elq_kat_matrix, tensor), 4},
                 {"seed", offsetof(elq_kat_matrix, seed), 4},
                 {"crc32c", offsetof(elq_kat_matrix, crc32c), 4},
                 {"reserved", offsetof(elq_kat_matrix, reserved), 4}});
  expect_struct("elq_kat_step", sizeof(elq_kat_step),
                {{"crc32c", offsetof(elq_kat_step, crc32c), 4},
                 {"best_token", offsetof(elq_kat_step, best_token), 4},
                 {"best_logit", offsetof(elq_kat_step, best_logit), 4},
                 {"reserved", offsetof(elq_kat_step, reserved), 4}});
}

struct Constant {
  const char* name;
  std::uint64_t value;
};

// Name and value columns of a table against the header's constants.
void expect_constants(const std::string& heading, std::size_t name_column, std::size_t value_column,
                      const std::vector<Constant>& constants) {
  const auto rows = table(heading);
  ASSERT_EQ(rows.size(), constants.size()) << heading;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at(name_column), constants[i].name);
    EXPECT_EQ(rows[i].at(value_column), std::to_string(constants[i].value)) << constants[i].name;
  }
}

TEST(SpecTables, Limits) {
  expect_constants("## 3. Limits", 0, 1,
                   {{"ELQ_MAX_FILE_BYTES", ELQ_MAX_FILE_BYTES},
                    {"ELQ_MAX_SECTIONS", ELQ_MAX_SECTIONS},
                    {"ELQ_MAX_TENSORS", ELQ_MAX_TENSORS},
                    {"ELQ_MAX_DIM", ELQ_MAX_DIM},
                    {"ELQ_MAX_ELEMENTS", ELQ_MAX_ELEMENTS},
                    {"ELQ_MAX_STRING_BYTES", ELQ_MAX_STRING_BYTES},
                    {"ELQ_MAX_STRING_TABLE_BYTES", ELQ_MAX_STRING_TABLE_BYTES},
                    {"ELQ_MAX_META_BYTES", ELQ_MAX_META_BYTES},
                    {"ELQ_MAX_META_KEYS", ELQ_MAX_META_KEYS},
                    {"ELQ_MAX_META_ARRAY", ELQ_MAX_META_ARRAY},
                    {"ELQ_MAX_LAYERS", ELQ_MAX_LAYERS},
                    {"ELQ_MAX_KEPT_COLUMNS", ELQ_MAX_KEPT_COLUMNS},
                    {"ELQ_MAX_RAW_RATIO", ELQ_MAX_RAW_RATIO},
                    {"ELQ_MAX_WEIGHT_SECTION_BYTES", ELQ_MAX_WEIGHT_SECTION_BYTES},
                    {"ELQ_WEIGHT_ALIGN_LOG2", ELQ_WEIGHT_ALIGN_LOG2},
                    {"ELQ_TENSOR_ALIGN", ELQ_TENSOR_ALIGN},
                    {"ELQ_PANEL_ROWS", ELQ_PANEL_ROWS},
                    {"ELQ_LINE_BYTES", ELQ_LINE_BYTES},
                    {"ELQ_COLUMN_PAD", ELQ_COLUMN_PAD},
                    {"ELQ_MAX_ROW_SUM", ELQ_MAX_ROW_SUM}});
}

TEST(SpecTables, SectionTypes) {
  expect_constants("### elq_section_type", 1, 0,
                   {{"ELQ_SECTION_META", ELQ_SECTION_META},
                    {"ELQ_SECTION_TENS", ELQ_SECTION_TENS},
                    {"ELQ_SECTION_STRT", ELQ_SECTION_STRT},
                    {"ELQ_SECTION_WGT", ELQ_SECTION_WGT},
                    {"ELQ_SECTION_TOKZ", ELQ_SECTION_TOKZ},
                    {"ELQ_SECTION_TMPL", ELQ_SECTION_TMPL},
                    {"ELQ_SECTION_PROF", ELQ_SECTION_PROF},
                    {"ELQ_SECTION_KAT", ELQ_SECTION_KAT},
                    {"ELQ_SECTION_LICN", ELQ_SECTION_LICN},
                    {"ELQ_SECTION_SBOM", ELQ_SECTION_SBOM},
                    {"ELQ_SECTION_SIGN", ELQ_SECTION_SIGN},
                    {"ELQ_SECTION_PROV", ELQ_SECTION_PROV}});
}

TEST(SpecTables, Enums) {
  expect_constants("### elq_meta_type", 1, 0,
                   {{"ELQ_META_U64", ELQ_META_U64},
                    {"ELQ_META_F64", ELQ_META_F64},
                    {"ELQ_META_U32_ARRAY", ELQ_META_U32_ARRAY},
                    {"ELQ_META_F32_ARRAY", ELQ_META_F32_ARRAY},
                    {"ELQ_META_TEXT", ELQ_META_TEXT}});
  expect_constants("### elq_role", 1, 0,
                   {{"ELQ_ROLE_EMBED", ELQ_ROLE_EMBED},
                    {"ELQ_ROLE_HEAD", ELQ_ROLE_HEAD},
                    {"ELQ_ROLE_FINAL_NORM", ELQ_ROLE_FINAL_NORM},
                    {"ELQ_ROLE_ATTN_NORM", ELQ_ROLE_ATTN_NORM},
                    {"ELQ_ROLE_MLP_NORM", ELQ_ROLE_MLP_NORM},
                    {"ELQ_ROLE_Q", ELQ_ROLE_Q},
                    {"ELQ_ROLE_K", ELQ_ROLE_K},
                    {"ELQ_ROLE_V", ELQ_ROLE_V},
                    {"ELQ_ROLE_O", ELQ_ROLE_O},
                    {"ELQ_ROLE_GATE", ELQ_ROLE_GATE},
                    {"ELQ_ROLE_UP", ELQ_ROLE_UP},
                    {"ELQ_ROLE_DOWN", ELQ_ROLE_DOWN},
                    {"ELQ_ROLE_BIAS", ELQ_ROLE_BIAS}});
  expect_constants("### elq_tensor_layout", 1, 0,
                   {{"ELQ_LAYOUT_F32", ELQ_LAYOUT_F32},
                    {"ELQ_LAYOUT_F16", ELQ_LAYOUT_F16},
                    {"ELQ_LAYOUT_BF16", ELQ_LAYOUT_BF16},
                    {"ELQ_LAYOUT_PACKED", ELQ_LAYOUT_PACKED}});
  expect_constants("### elq_scale_mode", 1, 0,
                   {{"ELQ_SCALE_ROW", ELQ_SCALE_ROW},
                    {"ELQ_SCALE_U8", ELQ_SCALE_U8},
                    {"ELQ_SCALE_F16", ELQ_SCALE_F16}});
}

std::uint32_t number(const std::string& text) {
  return static_cast<std::uint32_t>(std::stoul(text));
}

elq_tensor_record packed_record(std::uint32_t bits, std::uint32_t mode, std::uint32_t z2,
                                std::uint32_t group) {
  elq_tensor_record r{};
  r.bits = static_cast<std::uint8_t>(bits);
  r.scale_mode = static_cast<std::uint8_t>(mode);
  r.z2 = static_cast<std::uint16_t>(z2);
  r.group = static_cast<std::uint16_t>(group);
  return r;
}

// The page, this reader's formulas and the C packer's are three sources.
TEST(SpecTables, WorkedSizes) {
  const auto rows = table("Worked sizes");
  ASSERT_EQ(rows.size(), 7u);
  for (const Row& row : rows) {
    const std::uint32_t bits = number(row.at(0));
    const std::uint32_t mode = row.at(1) == "ROW"  ? ELQ_SCALE_ROW
                               : row.at(1) == "U8" ? ELQ_SCALE_U8
                                                   : ELQ_SCALE_F16;
    const std::uint32_t z2 = bits == 8 ? 256 : (1u << bits) - 1;
    elq_tensor_record r = packed_record(bits, mode, z2, number(row.at(2)));
    r.rows = number(row.at(3));
    r.cols = number(row.at(4));
    r.n_kept = std::min(number(row.at(5)), r.cols);
    const auto layout = package::packed_layout(r);
    ASSERT_TRUE(layout);
    EXPECT_EQ(std::to_string(layout->panel_bytes), row.at(6));
    EXPECT_EQ(std::to_string(layout->total_bytes), row.at(7));
    elq_matrix m;
    ASSERT_EQ(elq_matrix_init(&m, r.rows, r.cols, bits, mode, z2, r.group, r.n_kept), 0);
    EXPECT_EQ(std::to_string(elq_matrix_bytes(&m)), row.at(7));
  }
}

TEST(SpecTables, GridsAreAClosedList) {
  const auto rows = table("A weight is `half_scale");
  ASSERT_EQ(rows.size(), 8u);
  for (std::uint32_t bits = 0; bits <= 16; ++bits) {
    for (std::uint32_t z2 = 0; z2 <= 512; ++z2) {
      elq_tensor_record r = packed_record(bits, ELQ_SCALE_F16, z2, 32);
      r.rows = r.cols = 32;
      const bool listed = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
        return row.at(1) == std::to_string(bits) && row.at(2) == std::to_string(z2);
      });
      EXPECT_EQ(package::packed_layout(r).has_value(), listed) << bits << " bits, z2 " << z2;
    }
  }
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto value = std::to_integer<unsigned>(bytes[i]);
    if (i > 0) text += i % 32 == 0 ? '\n' : ' ';
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

TEST(SpecTables, WorkedExample) {
  const std::size_t begin = spec().find("```hex\n") + 7;
  const std::string expected = spec().substr(begin, spec().find("\n```", begin) - begin);
  auto image = package_image(spec_example().to_write(), kExampleSecurity, kExampleBuild);
  ASSERT_TRUE(image.ok()) << to_string(image.error());
  const std::span<const std::byte> bytes(image.value());
  EXPECT_EQ(hex_of(bytes.first(960)), expected);
  ASSERT_EQ(bytes.size(), 65544u);
  EXPECT_EQ(hex_of(bytes.subspan(65536)), "00 00 80 3F 00 00 00 BF");
  EXPECT_EQ(bytes[960], std::byte{'w'});
}

}  // namespace
}  // namespace elastiq::testing
