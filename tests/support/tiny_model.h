#pragma once

// Tiny Hugging Face folders with random weights (cases.md: T1, T2, T3), written without the
// product's own writers: config.json, model.safetensors, tokenizer.json, tokenizer_config.json.

#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/rng.h"

namespace elastiq::testing {

enum class HfTied { kYes, kNo, kUnstated };
enum class HfType { kBf16, kF32 };

struct HfShape {
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
  HfTied tied = HfTied::kYes;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::int64_t max_positions = 128;
};

/// 3 heads of 16, one KV head, nothing divisible by 32 except by accident, tied.
inline HfShape hf_t1() {
  return {48, 2, 3, 1, 16, 80, 67};
}

/// Head size 24 is not hidden / heads; 172 columns leave a tail at every group size; untied.
inline HfShape hf_t2() {
  return {64, 2, 4, 2, 24, 172, 512, HfTied::kNo};
}

/// The widths of a 135M model: 576 leaves 64 over at groups of 128 and 256.
inline HfShape hf_t3() {
  return {576, 2, 9, 3, 64, 1536, 300};
}

/// values are exactly what the stored type holds.
struct HfTensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

struct HfModel {
  HfShape shape;
  HfType type = HfType::kBf16;
  double rms_eps = 1e-5;
  double rope_theta = 10000.0;
  std::map<std::string, HfTensor> tensors;
};

/// To nearest, ties to even; finite values only.
inline std::uint16_t hf_bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float hf_round_bf16(float value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(hf_bf16_bits(value)) << 16);
}

/// Matrices are normal with variance 0.64 / columns (embedding and head: 0.25), norms near 1,
/// biases near 0.
inline HfModel hf_model(const HfShape& s, HfType type, std::uint64_t seed) {
  HfModel model;
  model.shape = s;
  model.type = type;
  Rng rng(seed);
  auto add = [&](const std::string& name, std::vector<std::uint64_t> shape, double mean,
                 double sigma) {
    HfTensor tensor;
    std::uint64_t n = 1;
    for (const std::uint64_t dim : shape) n *= dim;
    tensor.shape = std::move(shape);
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto value = static_cast<float>(mean + sigma * rng.normal());
      tensor.values.push_back(type == HfType::kBf16 ? hf_round_bf16(value) : value);
    }
    model.tensors[name] = std::move(tensor);
  };
  auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t cols, bool bias) {
    const double sigma = 0.8 / std::sqrt(static_cast<double>(cols));
    const auto out = static_cast<std::uint64_t>(rows);
    add(name + ".weight", {out, static_cast<std::uint64_t>(cols)}, 0, sigma);
    if (bias) add(name + ".bias", {out}, 0, 0.1);
  };
  const auto vocab = static_cast<std::uint64_t>(s.vocab);
  const auto hidden = static_cast<std::uint64_t>(s.hidden);
  add("model.embed_tokens.weight", {vocab, hidden}, 0, 0.5);
  if (s.tied == HfTied::kNo) {
    add("lm_head.weight", {vocab, hidden}, 0, 2.0 / std::sqrt(static_cast<double>(s.hidden)));
  }
  add("model.norm.weight", {hidden}, 1, 0.1);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    add(at + "input_layernorm.weight", {hidden}, 1, 0.1);
    add(at + "post_attention_layernorm.weight", {hidden}, 1, 0.1);
    linear(at + "self_attn.q_proj", s.heads * s.head_dim, s.hidden, s.attention_bias);
    linear(at + "self_attn.k_proj", s.kv_heads * s.head_dim, s.hidden, s.attention_bias);
    linear(at + "self_attn.v_proj", s.kv_heads * s.head_dim, s.hidden, s.attention_bias);
    linear(at + "self_attn.o_proj", s.hidden, s.heads * s.head_dim, s.attention_bias);
    linear(at + "mlp.gate_proj", s.ffn, s.hidden, s.mlp_bias);
    linear(at + "mlp.up_proj", s.ffn, s.hidden, s.mlp_bias);
    linear(at + "mlp.down_proj", s.hidden, s.ffn, s.mlp_bias);
  }
  return model;
}

// ------------------------------------------------------------------ files

inline void hf_write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string hf_config_json(const HfModel& model) {
  const HfShape& s = model.shape;
  auto member = [](const char* key, const std::string& value) {
    std::string text = "  \"";
    text.append(key).append("\": ").append(value).append(",\n");
    return text;
  };
  auto number = [&](const char* key, std::int64_t value) {
    return member(key, std::to_string(value));
  };
  auto flag = [&](const char* key, bool value) { return member(key, value ? "true" : "false"); };
  std::string text = "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n";
  text += "  \"model_type\": \"llama\",\n  \"hidden_act\": \"silu\",\n";
  text += number("hidden_size", s.hidden) + number("num_hidden_layers", s.layers);
  text += number("num_attention_heads", s.heads) + number("num_key_value_heads", s.kv_heads);
  text += number("head_dim", s.head_dim) + number("intermediate_size", s.ffn);
  text += number("vocab_size", s.vocab) + number("max_position_embeddings", s.max_positions);
  text += "  \"rms_norm_eps\": 1e-05,\n  \"rope_theta\": 10000.0,\n  \"rope_scaling\": null,\n";
  text += flag("attention_bias", s.attention_bias) + flag("mlp_bias", s.mlp_bias);
  if (s.tied != HfTied::kUnstated) text += flag("tie_word_embeddings", s.tied == HfTied::kYes);
  text += number("bos_token_id", 0) + number("eos_token_id", 1);
  text += model.type == HfType::kBf16 ? "  \"torch_dtype\": \"bfloat16\"\n}\n"
                                      : "  \"torch_dtype\": \"float32\"\n}\n";
  return text;
}

/// The safetensors file: u64 header length, JSON, data in name order.
inline std::string hf_safetensors(const std::map<std::string, HfTensor>& tensors, HfType type) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    for (const float value : tensor.values) {
      char raw[4];
      const std::uint16_t half = hf_bf16_bits(value);
      if (type == HfType::kBf16) std::memcpy(raw, &half, 2);
      if (type == HfType::kF32) std::memcpy(raw, &value, 4);
      data.append(raw, type == HfType::kBf16 ? 2 : 4);
    }
    if (header.size() > 1) header += ",";
    header += "\"" + name + "\":{\"dtype\":\"" + (type == HfType::kBf16 ? "BF16" : "F32") +
              "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      header.append(i > 0 ? "," : "").append(std::to_string(tensor.shape[i]));
    }
    header +=
        "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string file(8, '\0');
  const std::uint64_t bytes = header.size();
  std::memcpy(file.data(), &bytes, 8);
  return file + header + data;
}

/// Texts of the tokens of a byte-level BPE vocabulary of n entries: <|bos|>, <|eos|>, <|unk|>, the
/// alphabet, then merges. From 259 entries on the alphabet is all 256 bytes; below it is a-z, 0-9,
/// space, line feed, '.' and ','.
struct HfVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// GPT-2's printable stand-in of a byte, UTF-8.
inline std::string hf_byte_symbol(int byte) {
  auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

inline HfVocabulary hf_vocabulary(std::int64_t n) {
  HfVocabulary v;
  v.tokens = {"<|bos|>", "<|eos|>", "<|unk|>"};
  const std::string few = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,";
  for (int byte = 0; byte < 256; ++byte) {
    if (n < 259 && few.find(static_cast<char>(byte)) == std::string::npos) continue;
    v.tokens.push_back(hf_byte_symbol(byte));
  }
  // Pairs of frequent letters, the space first; in order of the sum of their ranks.
  std::vector<std::string> letters = {hf_byte_symbol(' ')};
  for (const char c : std::string("etaoinshrdlucmfwypvbgkqjxz")) letters.emplace_back(1, c);
  for (std::size_t sum = 1; sum < 2 * letters.size(); ++sum) {
    for (std::size_t i = 0; i <= sum && i < letters.size(); ++i) {
      const std::size_t j = sum - i;
      if (j == 0 || j >= letters.size() || static_cast<std::int64_t>(v.tokens.size()) >= n) {
        continue;
      }
      v.merges.emplace_back(letters[i], letters[j]);
      v.tokens.push_back(letters[i] + letters[j]);
    }
  }
  return v;
}

inline std::string hf_json_string(const std::string& text) {
  std::string out(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

inline std::string hf_tokenizer_json(std::int64_t vocab) {
  const HfVocabulary v = hf_vocabulary(vocab);
  std::string text = "{\n  \"version\": \"1.0\",\n  \"added_tokens\": [";
  for (int id = 0; id < 3; ++id) {
    text += (id > 0 ? ",\n    " : "\n    ");
    text += "{\"id\": " + std::to_string(id) +
            ", \"content\": " + hf_json_string(v.tokens[static_cast<std::size_t>(id)]) +
            ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
            "\"normalized\": false, \"special\": true}";
  }
  text += "],\n  \"normalizer\": null,\n";
  text +=
      "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
      "\"trim_offsets\": true, \"use_regex\": true},\n";
  text += "  \"post_processor\": null,\n";
  text +=
      "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
      "\"trim_offsets\": true, \"use_regex\": true},\n";
  text +=
      "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<|unk|>\", "
      "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
      "\"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {";
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    text.append(i > 0 ? ", " : "").append(hf_json_string(v.tokens[i]));
    text.append(": ").append(std::to_string(i));
  }
  text += "}, \"merges\": [";
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    text.append(i > 0 ? ", " : "");
    text += hf_json_string(v.merges[i].first + " " + v.merges[i].second);
  }
  return text + "]}\n}\n";
}

inline std::string hf_tokenizer_config_json() {
  return "{\n  \"add_bos_token\": true,\n  \"bos_token\": \"<|bos|>\",\n"
         "  \"eos_token\": \"<|eos|>\",\n  \"unk_token\": \"<|unk|>\",\n"
         "  \"chat_template\": \"{{ messages[0]['content'] }}\",\n"
         "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
}

/// The whole folder; it is made when absent.
inline void write_hf_model(const HfModel& model, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  hf_write_text(folder / "config.json", hf_config_json(model));
  hf_write_text(folder / "model.safetensors", hf_safetensors(model.tensors, model.type));
  hf_write_text(folder / "tokenizer.json", hf_tokenizer_json(model.shape.vocab));
  hf_write_text(folder / "tokenizer_config.json", hf_tokenizer_config_json());
}

/// Where a test program writes; gone when it ends. Two programs never share it.
class HfTestRoot {
 public:
  HfTestRoot()
      : path_(std::filesystem::temp_directory_path() /
              ("elastiq-tests-" + std::to_string(::getpid()))) {}

  ~HfTestRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  HfTestRoot(const HfTestRoot&) = delete;
  HfTestRoot& operator=(const HfTestRoot&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A folder of this test alone, emptied.
inline std::filesystem::path hf_test_folder(const std::string& name) {
  static const HfTestRoot root;
  const auto folder = root.path() / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace elastiq::testing
