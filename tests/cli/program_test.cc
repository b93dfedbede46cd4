// What a program makes of an exception that nothing below it has caught.

#include "cli/program.h"

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <stdexcept>

#include "cli/stage_command.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::TempFolder;

[[noreturn]] void throw_bad_alloc() {
  throw std::bad_alloc();
}

[[noreturn]] void throw_internal() {
  throw std::runtime_error("index 7 of 5\nframe #0: main");
}

/// The status of `test WORD` whose only subcommand "work" throws.
int status_of(void (*thrower)(), const char* last_word) {
  CLI::App app("test");
  int status = 0;
  bool json = false;
  CLI::App* work = app.add_subcommand("work", "throws");
  work->add_flag("--json", json, "as others have it");
  work->callback(thrower);
  std::string program = "test";
  std::string command = "work";
  std::string word = last_word;
  std::array<char*, 3> words = {program.data(), command.data(), word.data()};
  return parse_and_run(app, word.empty() ? 2 : 3, words.data(), status);
}

Result<Json> stage_that_throws(const Json& /*options*/, const std::string& /*subject*/) {
  throw_internal();
}

TEST(Exceptions, LackOfMemoryIsKnownByTypeAndByText) {
  EXPECT_EQ(error_of_exception(std::bad_alloc(), "x").code, ErrorCode::kResources);
  const std::runtime_error torch(
      "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. "
      "Error code 12 (Cannot allocate memory)\nException raised from");
  const Error error = error_of_exception(torch, "qat");
  EXPECT_EQ(error.code, ErrorCode::kResources);
  EXPECT_EQ(error.detail.find('\n'), std::string::npos);
  EXPECT_NE(error.detail.find("9 bytes"), std::string::npos);
}

TEST(Exceptions, AnyOtherIsOurBugWithItsFirstLine) {
  const Error error = error_of_exception(std::runtime_error("index 7 of 5\nframe #0"), "qat");
  EXPECT_EQ(to_string(error), "E-99 internal error: qat: index 7 of 5");
}

TEST(Exceptions, ProgramsReportThem) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(status_of(throw_bad_alloc, ""), 6);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("elastiq: E-31"), std::string::npos);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(status_of(throw_internal, "--json"), 1);
  const Json document = Json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(document["error"]["code"], 99);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "elastiq: E-99 internal error: work: index 7 of 5\n");
}

Result<Json> refuse_recipe(const QuantizeOptions& /*options*/) {
  return Error{ErrorCode::kRecipe, "rule 1 'x'", "matches no tensor"};
}

// `run` says that its recipe is bad; who typed the options has none.
TEST(StageCommands, WhatARecipeWouldBeBlamedForIsAUsageError) {
  CLI::App app("test");
  int status = 0;
  add_stage_command<QuantizeOptions>(app, status, "quantize", "refuses", refuse_recipe);
  std::array<std::string, 6> texts = {"test", "quantize", "--model", "m", "--out", "o"};
  std::array<char*, 6> words{};
  for (std::size_t i = 0; i < texts.size(); ++i) words.at(i) = texts.at(i).data();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(parse_and_run(app, 6, words.data(), status), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "elastiq: E-3 usage: rule 1 'x': matches no tensor\n");
}

TEST(Exceptions, AStageHandsThemToItsCaller) {
  const TempFolder folder;
  std::string file = folder.put("options.json", "{}").string();
  constexpr std::array kStages = {StageEntry{"qat", stage_that_throws}};
  CLI::App app("test");
  int status = 0;
  add_stage_runner(app, status, kStages.begin(), kStages.end());
  std::string program = "test";
  std::string command = "stage";
  std::string name = "qat";
  std::array<char*, 4> words = {program.data(), command.data(), name.data(), file.data()};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse_and_run(app, 4, words.data(), status), 1);
  const Json document = Json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(document["error"]["detail"], "index 7 of 5");
}

}  // namespace
}  // namespace elastiq
