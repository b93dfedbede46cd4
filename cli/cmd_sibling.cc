#include <array>
#include <cstring>

#include "cli/commands.h"

namespace elastiq {
namespace {

struct SiblingCommand {
  const char* name;
  const char* summary;
};

constexpr std::array kCommands = {
    SiblingCommand{"calibrate", "Collect statistics of a model on calibration text"},
    SiblingCommand{"quantize", "Quantize a model after training (RTN, GPTQ)"},
    SiblingCommand{"qat", "Train a quantized checkpoint further"},
    SiblingCommand{"train", "Train a small float model from scratch"},
    SiblingCommand{"evaluate", "Compare a model with the float model on held-out text"},
};

}  // namespace

void add_sibling_names(CLI::App& app) {
  for (const SiblingCommand& command : kCommands) {
    app.add_subcommand(command.name, command.summary);
  }
}

bool is_sibling_command(const char* name) {
  for (const SiblingCommand& command : kCommands) {
    if (std::strcmp(command.name, name) == 0) return true;
  }
  return false;
}

}  // namespace elastiq
