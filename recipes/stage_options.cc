#include "recipes/stage_options.h"

namespace elastiq {

Status problems_status(const std::vector<std::string>& problems, ErrorCode code,
                       const std::string& subject) {
  if (problems.empty()) return ok_status();
  if (problems.size() == 1) return Error{code, subject, problems.front()};
  std::string detail = std::to_string(problems.size()) + " problems";
  for (const std::string& problem : problems) detail += "\n  " + problem;
  return Error{code, subject, detail};
}

}  // namespace elastiq
