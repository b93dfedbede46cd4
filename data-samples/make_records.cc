// make_records FOLDER: writes the sample records of data-samples/README.md into FOLDER.
// The same bytes on every machine: integer draws from core/rng.h only.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "core/rng.h"
#include "data-samples/record_tables.h"

namespace {

using elastiq::Rng;

constexpr std::uint64_t kSeed = 20240611;
constexpr std::size_t kFirstId = 10000;
constexpr std::size_t kIds = 10000;

template <class Array>
const auto& pick(Rng& rng, const Array& items) {
  return items[static_cast<std::size_t>(rng.below(items.size()))];
}

std::string number(Rng& rng, std::uint64_t low, std::uint64_t high) {
  return std::to_string(low + rng.below(high - low + 1));
}

std::string capitalised(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

struct Record {
  std::string prompt;  ///< Up to and with "Part:".
  std::string answer;  ///< " door belt. Action: replace."
};

std::string header(Rng& rng, const records::Equipment& equipment, std::size_t id) {
  std::string text = "Record " + std::to_string(id) + ". ";
  text += std::string(equipment.name) + " " + equipment.prefix + number(rng, 1, 40);
  text += std::string(", ") + pick(rng, equipment.places) + ", ";
  text += number(rng, 1, 28) + " " + pick(rng, records::kMonths) + ". Readings: ";
  text += number(rng, 2, 90) + " " + equipment.readings[0] + ", ";
  text += number(rng, 30, 95) + " " + equipment.readings[1] + ".\n";
  return text;
}

std::string symptoms(Rng& rng, const records::Equipment& equipment, const records::Part& part) {
  std::size_t first = part.first;
  std::size_t second = part.second;
  if (rng.below(2) == 1) std::swap(first, second);
  const std::string a = pick(rng, equipment.symptoms[first].clauses);
  const std::string b = pick(rng, equipment.symptoms[second].clauses);
  const std::uint64_t form = rng.below(3);
  if (form == 0) return capitalised(a) + pick(rng, records::kJoins) + b + ". ";
  std::string text = pick(rng, records::kReports) + a;
  if (form == 1) return text + pick(rng, records::kJoins) + b + ". ";
  return text + ". " + capitalised(b) + ". ";
}

// A symptom that would point to another part, said to be absent.
std::string ruled_out(Rng& rng, const records::Equipment& equipment, const records::Part& part) {
  std::size_t other = part.first;
  while (other == part.first || other == part.second)
    other = static_cast<std::size_t>(rng.below(8));
  return std::string(pick(rng, records::kRuledOut)) + equipment.symptoms[other].noun + ". ";
}

std::string in_order(Rng& rng, const records::Equipment& equipment, const records::Part& part) {
  const records::Part* other = &part;
  while (other == &part) other = &pick(rng, equipment.parts);
  return std::string("The ") + other->name + pick(rng, records::kInOrder) + " ";
}

Record make_record(Rng& rng, std::size_t id) {
  const records::Equipment* const kinds[] = {&records::kLift, &records::kPump, &records::kConveyor};
  const records::Equipment& equipment = *kinds[rng.below(3)];
  const records::Part& part = pick(rng, equipment.parts);
  const records::Finding& finding = pick(rng, records::kFindings);
  const bool repeated = rng.below(3) == 0;

  Record record;
  record.prompt = header(rng, equipment, id);
  const bool absent_first = rng.below(4) == 0;
  if (absent_first) record.prompt += ruled_out(rng, equipment, part);
  record.prompt += symptoms(rng, equipment, part);
  if (!absent_first && rng.below(2) == 0) record.prompt += ruled_out(rng, equipment, part);
  if (rng.below(3) == 0) record.prompt += std::string(pick(rng, records::kRemarks)) + " ";
  if (rng.below(2) == 0) record.prompt += in_order(rng, equipment, part);
  record.prompt += std::string(pick(rng, records::kFinders)) + pick(rng, finding.clauses) + ". ";
  record.prompt += pick(rng, repeated ? records::kRepeated : records::kFirstTime);
  record.prompt += "\nPart:";
  record.answer =
      std::string(" ") + part.name + ". Action: " + (repeated ? "replace" : finding.action) + ".";
  return record;
}

std::vector<std::size_t> shuffled_ids(Rng& rng) {
  std::vector<std::size_t> ids(kIds);
  for (std::size_t i = 0; i < kIds; ++i) ids[i] = kFirstId + i;
  for (std::size_t i = kIds; i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);
  return ids;
}

// All strings of the tables are ASCII, so only quotes, backslashes and newlines would need escapes.
std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "make_records: cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_records FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  Rng rng(kSeed);
  const std::vector<std::size_t> ids = shuffled_ids(rng);
  std::size_t used = 0;

  struct Split {
    const char* name;
    std::size_t count;
  };

  for (const Split split :
       {Split{"train", 7500}, Split{"calibration", 600}, Split{"heldout", 350}}) {
    std::string text;
    for (std::size_t i = 0; i < split.count; ++i) {
      const Record record = make_record(rng, ids[used++]);
      text += record.prompt + record.answer + "\n\n";
    }
    if (!write(folder + "/" + split.name + ".txt", text)) return 4;
  }
  std::string task;
  for (std::size_t i = 0; i < 300; ++i) {
    const Record record = make_record(rng, ids[used++]);
    task += "{\"prompt\": " + json_string(record.prompt) +
            ", \"answer\": " + json_string(record.answer) + "}\n";
  }
  return write(folder + "/heldout-task.jsonl", task) ? 0 : 4;
}
