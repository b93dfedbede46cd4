// cases.md 4, 10 and 24 from a model folder to a package.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <span>

#include "core/json.h"
#include "model/run_generate.h"
#include "tests/support/expect_error.h"
#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

constexpr const char* kNorm = "model.layers.0.input_layernorm.weight";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";

/// The bytes of a tensor in the package.
std::vector<std::byte> stored(const Package& package, const std::string& name) {
  for (const PackageTensor& t : package.tensors()) {
    if (t.name != name) continue;
    const auto section = package.section_at(t.record.section);
    EXPECT_TRUE(section.ok());
    if (!section.ok()) break;
    const auto begin = section.value().begin() + static_cast<std::ptrdiff_t>(t.record.offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(t.record.bytes)};
  }
  ADD_FAILURE() << name << " is not in the package";
  return {};
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::vector<std::byte> bf16_bytes(const std::vector<std::uint16_t>& bits) {
  std::vector<std::byte> bytes(bits.size() * 2);
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  return bytes;
}

TEST(Cases, SubnormalsKeptAtSourceTypeAreStoredBitForBitAndCounted) {
  constexpr std::array<std::uint16_t, 6> kPatterns = {0x0001, 0x007F, 0x8001,
                                                      0x807F, 0x0000, 0x8000};
  HfModel model = hf_model(hf_t2(), HfType::kBf16, 7);
  std::vector<std::uint16_t> bits(64);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = kPatterns.at(i % kPatterns.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    model.tensors[kNorm].values[i] = from_bf16(bits[i]);
    model.tensors[kQuery].values[3 * 64 + i] = from_bf16(bits[i]);
  }
  const auto root = hf_test_folder("case_4");
  write_hf_model(model, root / "hf");
  ExportOptions options;
  options.model = root / "hf";
  options.out = root / "out";
  const auto manifest = run_export(options);
  ASSERT_TRUE(accepted(manifest));
  // 64 = 10 * 6 + 4: of each tensor 10 * 4 + 4 are subnormal.
  EXPECT_EQ(manifest.value()["warnings"],
            Json::array({"88 subnormal values in 2 tensors, first in " + std::string(kNorm) +
                         "; kept as they are"}));
  const auto package = Package::open(root / "out" / "model.elq");
  ASSERT_TRUE(accepted(package));
  // Norms are float32 in a package: the same values, exactly.
  std::vector<float> norm(bits.size());
  std::transform(bits.begin(), bits.end(), norm.begin(), from_bf16);
  const auto norm_bytes = std::as_bytes(std::span(norm));
  EXPECT_EQ(stored(package.value(), kNorm),
            std::vector<std::byte>(norm_bytes.begin(), norm_bytes.end()));
  const std::vector<std::byte> query = stored(package.value(), kQuery);
  ASSERT_EQ(query.size(), 96u * 64 * 2);
  const auto row = query.begin() + 3 * 64 * 2;
  EXPECT_EQ(std::vector<std::byte>(row, row + 64 * 2), bf16_bytes(bits));
}

/// T2 in three shards with an index; the second holds the MLP of both blocks.
void write_shards(const HfModel& model, const std::filesystem::path& folder) {
  write_hf_model(model, folder);
  std::filesystem::remove(folder / "model.safetensors");
  std::map<int, std::map<std::string, HfTensor>> shards;
  Json places = Json::object();
  for (const auto& [name, tensor] : model.tensors) {
    const int shard = name.find(".mlp.") != std::string::npos         ? 2
                      : name.find(".self_attn.") != std::string::npos ? 3
                                                                      : 1;
    shards[shard][name] = tensor;
    places[name] = "model-0000" + std::to_string(shard) + "-of-00003.safetensors";
  }
  for (const auto& [number, tensors] : shards) {
    hf_write_text(folder / ("model-0000" + std::to_string(number) + "-of-00003.safetensors"),
                  hf_safetensors(tensors, model.type));
  }
  hf_write_text(folder / "model.safetensors.index.json", Json{{"weight_map", places}}.dump());
}

TEST(Cases, AMissingShardIsRefusedWithWhatItHeld) {
  const auto root = hf_test_folder("case_10_missing");
  write_shards(hf_model(hf_t2(), HfType::kBf16, 7), root / "hf");
  std::filesystem::remove(root / "hf" / "model-00002-of-00003.safetensors");
  ExportOptions options;
  options.model = root / "hf";
  options.out = root / "out";
  EXPECT_TRUE(refused(run_export(options), ErrorCode::kMissing,
                      {"model-00002-of-00003.safetensors (6 tensors)"}));
  EXPECT_FALSE(std::filesystem::exists(root / "out"));
}

TEST(Cases, AnUnusedShardIsAWarningAndTheModelIsTheSame) {
  const auto root = hf_test_folder("case_10_unused");
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 7);
  write_hf_model(model, root / "whole");
  write_shards(model, root / "shards");
  hf_write_text(root / "shards" / "model-00004-of-00003.safetensors", "left over");
  ExportOptions options;
  options.model = root / "whole";
  options.out = root / "whole-out";
  ASSERT_TRUE(accepted(run_export(options)));
  options.model = root / "shards";
  options.out = root / "shards-out";
  const auto manifest = run_export(options);
  ASSERT_TRUE(accepted(manifest));
  EXPECT_EQ(manifest.value()["warnings"],
            Json::array({"unused file model-00004-of-00003.safetensors: the index does not name "
                         "it"}));
  const auto whole = Package::open(root / "whole-out" / "model.elq");
  const auto shards = Package::open(root / "shards-out" / "model.elq");
  ASSERT_TRUE(accepted(whole));
  ASSERT_TRUE(accepted(shards));
  ASSERT_EQ(whole.value().tensors().size(), shards.value().tensors().size());
  for (const auto& [name, tensor] : model.tensors) {
    EXPECT_EQ(stored(whole.value(), name), stored(shards.value(), name)) << name;
  }
}

// cases.md 24: the byte-order mark changes no id and no answer.
TEST(Cases, ByteOrderMarksInAModelFolderChangeNothing) {
  const auto root = hf_test_folder("case_24");
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 7);
  write_hf_model(model, root / "plain");
  write_hf_model(model, root / "marked");
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    hf_write_text(root / "marked" / name, "\xef\xbb\xbf" + file_text(root / "plain" / name));
  }
  std::vector<Json> answers;
  for (const char* form : {"plain", "marked"}) {
    ExportOptions options;
    options.model = root / form;
    options.out = root / (std::string(form) + "-out");
    ASSERT_TRUE(accepted(run_export(options)));
    GenerateOptions generate;
    generate.package = options.out / "model.elq";
    generate.prompt = "the tone";
    generate.max_tokens = 8;
    const auto answer = run_generate(generate, [](const std::string&) {});
    ASSERT_TRUE(accepted(answer));
    answers.push_back(answer.value());
  }
  EXPECT_EQ(answers[0]["tokens"], answers[1]["tokens"]);
  EXPECT_EQ(answers[0]["prompt_tokens"], answers[1]["prompt_tokens"]);
}

}  // namespace
}  // namespace elastiq::testing
