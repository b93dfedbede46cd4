// Malformed packages: one per rule, each refused with the status of that rule.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/tiny_package.h"

namespace elastiq::testing {
namespace {

// The fields a case damages, as structures inside the image.
struct View {
  explicit View(AlignedBytes& image)
      : bytes(image.data()),
        header(reinterpret_cast<elq_header*>(bytes)),
        toc(reinterpret_cast<elq_toc_entry*>(bytes + sizeof(elq_header))),
        meta(reinterpret_cast<elq_meta_entry*>(bytes + toc[0].offset + 8)),
        tensors(reinterpret_cast<elq_tensor_record*>(bytes + toc[1].offset)),
        names(bytes + toc[2].offset) {}

  elq_meta_entry& key(const std::string& name) {
    for (uint32_t i = 0;; ++i) {
      if (name == meta[i].key) return meta[i];
    }
  }

  elq_tensor_record& role(uint32_t wanted) {
    for (uint32_t i = 0;; ++i) {
      if (tensors[i].role == wanted) return tensors[i];
    }
  }

  // One that has kept columns and U8 scales.
  elq_tensor_record& kept() {
    for (uint32_t i = 0;; ++i) {
      if (tensors[i].n_kept > 1 && tensors[i].scale_mode == ELQ_SCALE_U8) return tensors[i];
    }
  }

  uint8_t* data(const elq_tensor_record& t) { return bytes + toc[t.section].offset + t.offset; }

  uint8_t* bytes;
  elq_header* header;
  elq_toc_entry* toc;
  elq_meta_entry* meta;
  elq_tensor_record* tensors;
  uint8_t* names;
};

struct Case {
  const char* name;
  elq_status status;
  std::function<void(View&)> damage;
};

elq_status open_status(const AlignedBytes& image, uint64_t bytes) {
  elq_model* model = nullptr;
  elq_error_info info = {nullptr, 0};
  const elq_status status = elq_model_open(image.data(), bytes, &model, &info);
  EXPECT_EQ(model != nullptr, status == ELQ_OK);
  EXPECT_EQ(info.field != nullptr, status != ELQ_OK);
  elq_model_close(model);
  return status;
}

AlignedBytes valid_image() {
  return package_of(tiny_model(tiny_t1(), mixed_schemes, 9));
}

// Checksums are made right again after the damage, so that only the rule itself can refuse.
void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    AlignedBytes image = valid_image();
    View view(image);
    c.damage(view);
    reseal(image);
    EXPECT_EQ(open_status(image, image.size()), c.status) << c.name;
  }
}

TEST(Package, ValidOneOpens) {
  const AlignedBytes image = valid_image();
  EXPECT_EQ(open_status(image, image.size()), ELQ_OK);
}

TEST(Package, EveryTruncationIsRefused) {
  const AlignedBytes image = valid_image();
  for (uint64_t bytes = 0; bytes < image.size(); bytes += bytes < 8192 ? 1 : 997) {
    EXPECT_EQ(open_status(image, bytes), ELQ_ERR_TRUNCATED) << bytes;
  }
}

TEST(Package, NullAndUnalignedImagesAreArguments) {
  AlignedBytes image = valid_image();
  elq_model* model = nullptr;
  EXPECT_EQ(elq_model_open(nullptr, 4096, &model, nullptr), ELQ_ERR_ARGUMENT);
  EXPECT_EQ(elq_model_open(image.data() + 8, 4096, &model, nullptr), ELQ_ERR_ARGUMENT);
  EXPECT_EQ(elq_model_open(image.data(), image.size(), nullptr, nullptr), ELQ_ERR_ARGUMENT);
}

TEST(Package, Checksums) {
  AlignedBytes image = valid_image();
  image.data()[0x30] ^= 1;
  EXPECT_EQ(open_status(image, image.size()), ELQ_ERR_CHECKSUM);
  for (uint32_t section = 0; section < 5; ++section) {
    image = valid_image();
    image.data()[View(image).toc[section].offset] ^= 1;
    EXPECT_EQ(open_status(image, image.size()), ELQ_ERR_CHECKSUM) << section;
  }
}

TEST(Package, HeaderRules) {
  expect_refused({
      {"magic", ELQ_ERR_MAGIC, [](View& v) { v.header->magic[4] = '\n'; }},
      {"major", ELQ_ERR_VERSION, [](View& v) { v.header->major = 2; }},
      {"header_bytes", ELQ_ERR_INCONSISTENT, [](View& v) { v.header->header_bytes = 128; }},
      {"toc_offset", ELQ_ERR_INCONSISTENT, [](View& v) { v.header->toc_offset = 512; }},
      {"file_bytes short", ELQ_ERR_INCONSISTENT, [](View& v) { v.header->file_bytes -= 1; }},
      {"file_bytes long", ELQ_ERR_TRUNCATED, [](View& v) { v.header->file_bytes += 1; }},
      {"file_bytes limit", ELQ_ERR_LIMIT, [](View& v) { v.header->file_bytes = UINT64_MAX; }},
      {"required feature", ELQ_ERR_UNSUPPORTED, [](View& v) { v.header->required_features = 4; }},
      {"reserved", ELQ_ERR_INCONSISTENT, [](View& v) { v.header->reserved[155] = 1; }},
      {"toc_entry_bytes", ELQ_ERR_INCONSISTENT, [](View& v) { v.header->toc_entry_bytes = 100; }},
      {"no sections", ELQ_ERR_LIMIT, [](View& v) { v.header->toc_count = 0; }},
      {"4097 sections", ELQ_ERR_LIMIT, [](View& v) { v.header->toc_count = 4097; }},
      {"toc past the end", ELQ_ERR_TRUNCATED, [](View& v) { v.header->toc_count = 4096; }},
  });
}

TEST(Package, SectionRules) {
  expect_refused({
      {"type 0", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[4].type = 0; }},
      {"type 13", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[4].type = 13; }},
      {"flag", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[4].flags = 2; }},
      {"delta", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[4].base_section_id = 1; }},
      {"reserved", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[4].reserved[15] = 1; }},
      {"align 7", ELQ_ERR_LIMIT, [](View& v) { v.toc[4].align_log2 = 7; }},
      {"align 255", ELQ_ERR_LIMIT, [](View& v) { v.toc[4].align_log2 = 255; }},
      {"unaligned", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[4].offset += 8; }},
      {"weights at 64", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[3].align_log2 = 6; }},
      {"raw differs", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[0].raw_bytes += 1; }},
      {"raw ratio", ELQ_ERR_LIMIT, [](View& v) { v.toc[4].raw_bytes = 4 * 64; }},
      {"compressed weights", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[3].flags = 1; }},
      {"compressed tensors", ELQ_ERR_UNSUPPORTED, [](View& v) { v.toc[1].flags = 1; }},
      {"overlap", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[2].offset = v.toc[1].offset; }},
      {"descending", ELQ_ERR_INCONSISTENT, [](View& v) { std::swap(v.toc[0], v.toc[1]); }},
      {"over the toc", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[0].offset = 256; }},
      {"past the end", ELQ_ERR_TRUNCATED,
       [](View& v) { v.toc[4].stored_bytes = v.toc[4].raw_bytes = 4096; }},
      {"size wraps", ELQ_ERR_TRUNCATED,
       [](View& v) { v.toc[4].stored_bytes = v.toc[4].raw_bytes = UINT64_MAX - 63; }},
      {"offset far", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[4].offset = UINT64_MAX - 63; }},
      {"padding", ELQ_ERR_INCONSISTENT, [](View& v) { v.bytes[v.toc[3].offset - 1] = 1; }},
      {"second META", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[4].type = 1, v.toc[4].flags = 0; }},
      {"no TENS", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[1].type = ELQ_SECTION_LICN; }},
      {"no STRT", ELQ_ERR_INCONSISTENT, [](View& v) { v.toc[2].type = ELQ_SECTION_LICN; }},
  });
}

AlignedBytes with_more_bytes(const AlignedBytes& image, size_t more) {
  AlignedBytes longer(image.size() + more);
  std::memcpy(longer.data(), image.data(), image.size());
  View(longer).header->file_bytes += more;
  return longer;
}

// SPEC-package.md section 1: one content has one encoding.
TEST(Package, AGapBetweenSectionsIsRefused) {
  const AlignedBytes image = valid_image();
  AlignedBytes gap = with_more_bytes(image, 64);
  elq_toc_entry& last = View(gap).toc[4];
  std::memmove(gap.data() + last.offset + 64, gap.data() + last.offset, last.stored_bytes);
  std::memset(gap.data() + last.offset, 0, last.stored_bytes);
  last.offset += 64;
  reseal(gap);
  EXPECT_EQ(open_status(gap, gap.size()), ELQ_ERR_INCONSISTENT);
}

TEST(Package, BytesAfterTheLastSectionAreRefused) {
  AlignedBytes longer = with_more_bytes(valid_image(), 64);
  reseal(longer);
  EXPECT_EQ(open_status(longer, longer.size()), ELQ_ERR_INCONSISTENT);
}

std::vector<TinySection> sections_of(const AlignedBytes& image) {
  std::vector<TinySection> sections;
  AlignedBytes copy = with_more_bytes(image, 0);
  const View view(copy);
  for (uint32_t i = 0; i < view.header->toc_count; ++i) {
    const elq_toc_entry& s = view.toc[i];
    const uint8_t* at = copy.data() + s.offset;
    sections.push_back({s.type, s.flags, {at, at + s.stored_bytes}});
  }
  return sections;
}

TEST(Package, SectionsButWeightsOccurOnceAndSignaturesAreLast) {
  const std::vector<TinySection> sections = sections_of(valid_image());
  const TinySection licence = {ELQ_SECTION_LICN, 0, {1, 2, 3}};
  const TinySection sign = {ELQ_SECTION_SIGN, 0, {1, 2, 3}};
  const auto status_with = [&sections](const std::vector<TinySection>& more) {
    std::vector<TinySection> all = sections;
    all.insert(all.end(), more.begin(), more.end());
    const AlignedBytes image = image_of(all);
    return open_status(image, image.size());
  };
  EXPECT_EQ(status_with({licence, sign}), ELQ_OK);
  EXPECT_EQ(status_with({sign, licence}), ELQ_ERR_INCONSISTENT);
  EXPECT_EQ(status_with({licence, licence}), ELQ_ERR_INCONSISTENT);
  EXPECT_EQ(status_with({sign, sign}), ELQ_ERR_INCONSISTENT);
}

TEST(Package, MetaRules) {
  expect_refused({
      {"second word", ELQ_ERR_INCONSISTENT, [](View& v) { v.bytes[v.toc[0].offset + 4] = 1; }},
      {"too many", ELQ_ERR_LIMIT, [](View& v) { v.bytes[v.toc[0].offset + 2] = 1; }},
      {"past the end", ELQ_ERR_TRUNCATED, [](View& v) { v.bytes[v.toc[0].offset] = 200; }},
      {"order", ELQ_ERR_INCONSISTENT, [](View& v) { std::swap(v.meta[3], v.meta[4]); }},
      {"twice", ELQ_ERR_INCONSISTENT, [](View& v) { v.meta[4] = v.meta[3]; }},
      {"control byte", ELQ_ERR_INCONSISTENT, [](View& v) { v.meta[13].key[2] = 7; }},
      {"no terminator", ELQ_ERR_INCONSISTENT,
       [](View& v) { std::memset(v.meta[13].key, 'z', 40); }},
      {"after terminator", ELQ_ERR_INCONSISTENT, [](View& v) { v.meta[13].key[39] = 'z'; }},
      {"reserved", ELQ_ERR_INCONSISTENT, [](View& v) { v.meta[0].reserved = 1; }},
      {"type", ELQ_ERR_UNSUPPORTED, [](View& v) { v.meta[0].type = 6; }},
      {"scalar count", ELQ_ERR_INCONSISTENT, [](View& v) { v.key("model.ffn").count = 2; }},
      {"array limit", ELQ_ERR_LIMIT,
       [](View& v) { v.key("model.architecture").count = ELQ_MAX_META_ARRAY + 1; }},
      {"array end", ELQ_ERR_TRUNCATED, [](View& v) { v.key("model.architecture").count = 6; }},
      {"array far", ELQ_ERR_TRUNCATED,
       [](View& v) { v.key("model.architecture").value = UINT64_MAX - 7; }},
      {"array unaligned", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.key("model.architecture").value += 4; }},
      {"array in table", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.key("model.architecture").value = 8; }},
  });
}

TEST(Package, HyperparameterRules) {
  const auto set = [](const char* key, uint64_t value) {
    return [key, value](View& v) { v.key(key).value = value; };
  };
  const auto real = [](const char* key, double value) {
    return [key, value](View& v) { std::memcpy(&v.key(key).value, &value, 8); };
  };
  expect_refused({
      {"missing", ELQ_ERR_INCONSISTENT, [](View& v) { v.key("model.ffn").key[8] = 'o'; }},
      {"wrong type", ELQ_ERR_INCONSISTENT, [](View& v) { v.key("model.ffn").type = 2; }},
      {"architecture", ELQ_ERR_UNSUPPORTED,
       [](View& v) { v.bytes[v.toc[0].offset + v.key("model.architecture").value] = 'g'; }},
      {"hidden 0", ELQ_ERR_LIMIT, set("model.hidden", 0)},
      {"hidden", ELQ_ERR_INCONSISTENT, set("model.hidden", 64)},
      {"hidden 2^32 + 48", ELQ_ERR_LIMIT, set("model.hidden", (uint64_t{1} << 32) + 48)},
      {"layers 3", ELQ_ERR_INCONSISTENT, set("model.layers", 3)},
      {"layers 1", ELQ_ERR_INCONSISTENT, set("model.layers", 1)},
      {"layers 1025", ELQ_ERR_LIMIT, set("model.layers", 1025)},
      {"heads 0", ELQ_ERR_LIMIT, set("model.heads", 0)},
      {"kv_heads 2 of 3", ELQ_ERR_INCONSISTENT, set("model.kv_heads", 2)},
      {"kv_heads 4 of 3", ELQ_ERR_LIMIT, set("model.kv_heads", 4)},
      {"head_dim odd", ELQ_ERR_INCONSISTENT, set("model.head_dim", 15)},
      {"head_dim", ELQ_ERR_INCONSISTENT, set("model.head_dim", 32)},
      {"ffn", ELQ_ERR_INCONSISTENT, set("model.ffn", 81)},
      {"vocab", ELQ_ERR_INCONSISTENT, set("model.vocab", 68)},
      {"max_positions 0", ELQ_ERR_LIMIT, set("model.max_positions", 0)},
      {"bos", ELQ_ERR_LIMIT, set("tokenizer.bos", 67)},
      {"add_bos", ELQ_ERR_LIMIT, set("tokenizer.add_bos", 2)},
      {"add_bos without bos", ELQ_ERR_INCONSISTENT, set("tokenizer.bos", UINT64_MAX)},
      {"rms_eps nan", ELQ_ERR_LIMIT, real("model.rms_eps", std::nan(""))},
      {"rms_eps negative", ELQ_ERR_LIMIT, real("model.rms_eps", -1e-5)},
      {"rope_theta 0", ELQ_ERR_LIMIT, real("model.rope_theta", 0)},
  });
}

TEST(Package, TensorRules) {
  expect_refused({
      {"name empty", ELQ_ERR_LIMIT, [](View& v) { v.tensors[0].name_bytes = 0; }},
      {"name 256", ELQ_ERR_LIMIT, [](View& v) { v.tensors[0].name_bytes = 256; }},
      {"name past the end", ELQ_ERR_TRUNCATED,
       [](View& v) { v.tensors[0].name_offset = static_cast<uint32_t>(v.toc[2].stored_bytes); }},
      {"name control", ELQ_ERR_INCONSISTENT, [](View& v) { v.names[0] = 0; }},
      {"name not UTF-8", ELQ_ERR_INCONSISTENT, [](View& v) { v.names[0] = 0xff; }},
      {"name twice", ELQ_ERR_INCONSISTENT,
       [](View& v) {
         v.tensors[1].name_offset = v.tensors[0].name_offset;
         v.tensors[1].name_bytes = v.tensors[0].name_bytes;
       }},
      {"name order", ELQ_ERR_INCONSISTENT, [](View& v) { std::swap(v.tensors[0], v.tensors[1]); }},
      {"role 0", ELQ_ERR_UNSUPPORTED, [](View& v) { v.tensors[0].role = 0; }},
      {"role 13", ELQ_ERR_UNSUPPORTED, [](View& v) { v.tensors[0].role = 13; }},
      {"bias of a norm", ELQ_ERR_UNSUPPORTED, [](View& v) { v.tensors[0].role = 32 + 3; }},
      {"role twice", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.role(ELQ_ROLE_ATTN_NORM).role = ELQ_ROLE_MLP_NORM; }},
      {"layer", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(ELQ_ROLE_Q).layer = 2; }},
      {"layer of embedding", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(1).layer = 1; }},
      {"reserved0", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[2].reserved0 = 1; }},
      {"reserved", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[2].reserved[47] = 1; }},
      {"layout 0", ELQ_ERR_UNSUPPORTED, [](View& v) { v.tensors[0].layout = 0; }},
      {"layout 5", ELQ_ERR_UNSUPPORTED, [](View& v) { v.tensors[0].layout = 5; }},
      {"section is not weights", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].section = 2; }},
      {"section index", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].section = 5; }},
      {"offset", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].offset += 32; }},
      {"offset past the end", ELQ_ERR_TRUNCATED, [](View& v) { v.tensors[0].offset = 1 << 30; }},
      {"offset wraps", ELQ_ERR_TRUNCATED, [](View& v) { v.tensors[0].offset = UINT64_MAX - 63; }},
      {"bytes past the end", ELQ_ERR_TRUNCATED, [](View& v) { v.tensors[0].bytes = 1 << 30; }},
      {"alias index", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].alias_of = 1000; }},
      {"alias of itself", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].alias_of = 1; }},
      {"alias of another", ELQ_ERR_INCONSISTENT, [](View& v) { v.tensors[0].alias_of = 2; }},
      {"tens size", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.toc[1].raw_bytes = --v.toc[1].stored_bytes; }},
  });
}

TEST(Package, FloatTensorRules) {
  const uint32_t norm = ELQ_ROLE_FINAL_NORM;
  expect_refused({
      {"bits", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(norm).bits = 2; }},
      {"group", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(norm).group = 32; }},
      {"kept", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(norm).n_kept = 1; }},
      {"padded", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(norm).padded_cols = 64; }},
      {"bytes", ELQ_ERR_INCONSISTENT, [](View& v) { v.role(norm).bytes -= 4; }},
      {"no columns", ELQ_ERR_LIMIT,
       [](View& v) { v.role(norm).cols = v.role(norm).padded_cols = 0; }},
      {"dim limit", ELQ_ERR_LIMIT,
       [](View& v) { v.role(norm).cols = v.role(norm).padded_cols = 0x80000000u; }},
      {"elements limit", ELQ_ERR_LIMIT,
       [](View& v) {
         elq_tensor_record& t = v.role(norm);
         t.rows = t.padded_rows = t.cols = t.padded_cols = 0x7fffffff;
       }},
  });
}

TEST(Package, PackedTensorRules) {
  expect_refused({
      {"bits 5", ELQ_ERR_LIMIT, [](View& v) { v.kept().bits = 5; }},
      {"scale mode 4", ELQ_ERR_LIMIT, [](View& v) { v.kept().scale_mode = 4; }},
      {"z2", ELQ_ERR_LIMIT, [](View& v) { v.kept().z2 = 500; }},
      {"group 48", ELQ_ERR_LIMIT, [](View& v) { v.kept().group = 48; }},
      {"rows 0", ELQ_ERR_LIMIT, [](View& v) { v.kept().rows = 0; }},
      {"dims", ELQ_ERR_LIMIT, [](View& v) { v.kept().rows = v.kept().cols = 0x7fffffff; }},
      {"padded rows", ELQ_ERR_INCONSISTENT, [](View& v) { v.kept().padded_rows += 16; }},
      {"padded cols", ELQ_ERR_INCONSISTENT, [](View& v) { v.kept().padded_cols += 32; }},
      {"bytes", ELQ_ERR_INCONSISTENT, [](View& v) { v.kept().bytes -= 64; }},
      {"more rows than bytes", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.kept().rows += 16, v.kept().padded_rows += 16; }},
      {"65 kept", ELQ_ERR_LIMIT, [](View& v) { v.kept().n_kept = 65; }},
      {"kept_offset", ELQ_ERR_INCONSISTENT, [](View& v) { v.kept().kept_offset += 64; }},
      {"smax 0", ELQ_ERR_LIMIT, [](View& v) { v.kept().smax = 0; }},
      {"smax 256", ELQ_ERR_LIMIT, [](View& v) { v.kept().smax = 256; }},
      {"smax without U8", ELQ_ERR_INCONSISTENT,
       [](View& v) {
         for (uint32_t i = 0;; ++i) {
           if (v.tensors[i].scale_mode != ELQ_SCALE_ROW) continue;
           v.tensors[i].smax = 1;
           return;
         }
       }},
      {"kept index order", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.data(v.kept())[v.kept().kept_offset + 2] = 0; }},
      {"kept index", ELQ_ERR_INCONSISTENT,
       [](View& v) { v.data(v.kept())[v.kept().kept_offset + 2 * v.kept().n_kept - 1] = 0xff; }},
      {"kept scale", ELQ_ERR_INCONSISTENT,
       [](View& v) { std::memset(v.data(v.kept()) + v.kept().kept_offset + 64, 0xff, 4); }},
  });
}

TEST(Package, RowSumLimitIsHeld) {
  // 255 * 15 * 127 * 4416 is below 2^31 - 1, with 4448 columns it is above: smax must be lowered.
  for (const auto& [ffn, smax, status] :
       {std::tuple{4416u, 255u, ELQ_OK}, std::tuple{4448u, 255u, ELQ_ERR_LIMIT},
        std::tuple{4448u, 253u, ELQ_OK}}) {
    TinyShape shape = tiny_t1();
    shape.ffn = ffn;
    const auto scheme = [](uint32_t, uint32_t) { return Scheme{4, ELQ_SCALE_U8, 15, 64, 0}; };
    AlignedBytes image = package_of(tiny_model(shape, scheme, 1));
    View(image).role(ELQ_ROLE_DOWN).smax = smax;
    reseal(image);
    EXPECT_EQ(open_status(image, image.size()), status) << ffn << " " << smax;
  }
}

TEST(Package, HeadMayAliasTheEmbedding) {
  TinyModel tiny = tiny_model(tiny_t1(), mixed_schemes, 9);
  TinyTensor head = *tiny.find(ELQ_ROLE_EMBED, 0);
  head.name = "head";
  head.record.role = ELQ_ROLE_HEAD;
  tiny.tensors.insert(tiny.tensors.begin() + 1, head);
  AlignedBytes image = package_of(tiny);
  View view(image);
  view.tensors[1].offset = view.tensors[0].offset;
  view.tensors[1].alias_of = 1;
  reseal(image);
  EXPECT_EQ(open_status(image, image.size()), ELQ_OK);
}

// Any one damaged byte of the tables either is refused or leaves a model that can run; never a
// crash.
TEST(Package, FlippedBitsNeverCrash) {
  const AlignedBytes valid = valid_image();
  AlignedBytes pristine = valid;
  const uint64_t end = View(pristine).toc[2].offset + View(pristine).toc[2].stored_bytes;
  Random random(1);
  for (uint64_t at = 0; at < end; ++at) {
    AlignedBytes image = valid;
    image.data()[at] = static_cast<uint8_t>(image.data()[at] ^ (1u << random.below(8)));
    reseal(image);
    elq_model* model = nullptr;
    if (elq_model_open(image.data(), image.size(), &model, nullptr) != ELQ_OK) continue;
    const elq_session_options options = {1, 1, nullptr, {nullptr, nullptr}};
    elq_session* session = nullptr;
    if (elq_session_new(model, &options, &session) == ELQ_OK) {
      const uint32_t token = 0;
      EXPECT_EQ(elq_eval(session, &token, 1, 0, nullptr), ELQ_OK);
    }
    elq_session_free(session);
    elq_model_close(model);
  }
}

}  // namespace
}  // namespace elastiq::testing
