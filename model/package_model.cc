#include "model/package_model.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace elastiq {
namespace {

// 8 KiB of accumulators per panel and token chunk in the kernels: more tokens per step gain
// nothing.
constexpr std::uint32_t kStepTokens = 128;
constexpr std::uint32_t kDefaultTokens = 4096;

struct StatusRow {
  elq_status status;
  ErrorCode code;
};

constexpr std::array kStatuses = {
    StatusRow{ELQ_ERR_ARGUMENT, ErrorCode::kInvalidArgument},
    StatusRow{ELQ_ERR_MEMORY, ErrorCode::kResources},
    StatusRow{ELQ_ERR_TRUNCATED, ErrorCode::kTruncated},
    StatusRow{ELQ_ERR_MAGIC, ErrorCode::kBadMagic},
    StatusRow{ELQ_ERR_VERSION, ErrorCode::kUnsupportedVersion},
    StatusRow{ELQ_ERR_CHECKSUM, ErrorCode::kVerification},
    StatusRow{ELQ_ERR_LIMIT, ErrorCode::kLimitExceeded},
    StatusRow{ELQ_ERR_INCONSISTENT, ErrorCode::kInconsistent},
    StatusRow{ELQ_ERR_UNSUPPORTED, ErrorCode::kUnsupportedType},
    StatusRow{ELQ_ERR_FULL, ErrorCode::kLimitExceeded},
    StatusRow{ELQ_ERR_SELFTEST, ErrorCode::kVerification},
};

bool has_compressed_weights(const Package& package) {
  return std::any_of(package.toc().begin(), package.toc().end(), [](const elq_toc_entry& s) {
    return s.type == ELQ_SECTION_WGT && s.flags != 0;
  });
}

/// The package with every section stored raw; indices of sections stay what TENS says.
Result<LineBytes> inflate(const Package& package) {
  std::vector<std::vector<std::byte>> raw;
  std::vector<SectionToWrite> sections;
  for (std::size_t i = 0; i < package.toc().size(); ++i) {
    ELQ_TRY(bytes, package.section_at(i));
    raw.push_back(std::move(bytes));
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    sections.push_back(
        SectionToWrite{package.toc()[i].type, {raw[i]}, SectionToWrite::Compression::kNone});
  }
  return package_image(sections, package.header().security_version, package.header().build_id);
}

std::string supported_names() {
  std::size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  std::string names;
  for (std::size_t i = 0; i < n; ++i) {
    if (impls[i]->supported() == 0) continue;
    names += (names.empty() ? "" : ", ") + std::string(impls[i]->name);
  }
  return names;
}

/// An explicit name, else ELQ_ISA, else the best.
Result<const elq_impl*> find_impl(const std::string& wanted) {
  const char* environment = std::getenv("ELQ_ISA");
  std::string name = wanted;
  std::string subject = "isa";
  if (name.empty() && environment != nullptr) {
    name = environment;
    subject = "ELQ_ISA";
  }
  if (name.empty()) return elq_impl_best();
  const elq_impl* impl = elq_impl_by_name(name.c_str());
  if (impl != nullptr) return impl;
  return Error{
      ErrorCode::kInvalidArgument, subject,
      "\"" + name + "\" is unknown or not supported by this CPU; supported: " + supported_names(),
      0};
}

}  // namespace

Error runtime_error(elq_status status, const elq_error_info* info, const std::string& subject) {
  ErrorCode code = ErrorCode::kInternal;
  for (const StatusRow& row : kStatuses) {
    if (row.status == status) code = row.code;
  }
  std::string detail = elq_status_text(status);
  if (info != nullptr && info->field != nullptr && info->field[0] != '\0') {
    detail += std::string(": ") + info->field;
  }
  return Error{code, subject, std::move(detail), info == nullptr ? 0 : info->offset};
}

struct PackageModel::State {
  Package package;
  LineBytes inflated;  ///< Empty when the mapped file is used in place.
  std::string subject;
  elq_model* model = nullptr;
  elq_session* session = nullptr;
  const elq_impl* impl = nullptr;
  std::unique_ptr<ThreadPool> pool;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    elq_session_free(session);
    elq_model_close(model);
  }

  Status start_session(const Options& options) {
    const std::uint32_t most = elq_model_config(model)->max_positions;
    if (options.max_tokens > most) {
      return Error{ErrorCode::kLimitExceeded, subject,
                   "max_tokens is " + std::to_string(options.max_tokens) + ", the model has " +
                       std::to_string(most) + " positions",
                   0};
    }
    elq_session_options session_options{};
    session_options.max_tokens =
        options.max_tokens != 0 ? options.max_tokens : std::min(most, kDefaultTokens);
    session_options.max_batch = kStepTokens;
    session_options.impl = impl;
    if (options.threads > 1) {
      pool = std::make_unique<ThreadPool>(options.threads);
      session_options.parallel = elq_parallel{&ThreadPool::c_run, pool.get()};
    }
    const elq_status status = elq_session_new(model, &session_options, &session);
    if (status == ELQ_OK) return ok_status();
    return runtime_error(status, nullptr, subject + ", session");
  }
};

Result<PackageModel> PackageModel::open(const std::filesystem::path& path, const Options& options) {
  if (options.threads < 1) {
    return Error{ErrorCode::kInvalidArgument, "threads",
                 std::to_string(options.threads) + ", at least 1", 0};
  }
  auto state = std::make_unique<State>();
  state->subject = path.string();
  ELQ_TRY(impl, find_impl(options.isa));
  state->impl = impl;
  ELQ_TRY(package, Package::open(path));
  state->package = std::move(package);
  std::span<const std::byte> image = state->package.image();
  if (has_compressed_weights(state->package)) {
    ELQ_TRY(inflated, inflate(state->package));
    state->inflated = std::move(inflated);
    image = state->inflated;
  }
  elq_error_info info{"", 0};
  const elq_status status = elq_model_open(image.data(), image.size(), &state->model, &info);
  if (status != ELQ_OK) return runtime_error(status, &info, state->subject);
  ELQ_CHECK(state->start_session(options));
  return PackageModel(std::move(state));
}

PackageModel::PackageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

PackageModel::PackageModel(PackageModel&&) noexcept = default;

PackageModel& PackageModel::operator=(PackageModel&&) noexcept = default;

PackageModel::~PackageModel() = default;

const elq_config& PackageModel::config() const {
  return *elq_model_config(state_->model);
}

const Package& PackageModel::package() const {
  return state_->package;
}

const char* PackageModel::isa() const {
  return state_->impl->name;
}

Status PackageModel::eval(std::span<const std::uint32_t> tokens, std::uint32_t n_logits,
                          std::span<float> logits) {
  const std::string subject = state_->subject + ", eval";
  const std::uint64_t expected = std::uint64_t{n_logits} * config().vocab;
  if (logits.size() != expected || tokens.size() > UINT32_MAX) {
    return Error{ErrorCode::kInvalidArgument, subject,
                 "logits has room for " + std::to_string(logits.size()) + " values, expected " +
                     std::to_string(expected),
                 0};
  }
  const elq_status status =
      elq_eval(state_->session, tokens.data(), static_cast<std::uint32_t>(tokens.size()), n_logits,
               logits.empty() ? nullptr : logits.data());
  if (status == ELQ_OK) return ok_status();
  return runtime_error(status, nullptr, subject);
}

Status PackageModel::rewind(std::uint32_t n) {
  const elq_status status = elq_session_rewind(state_->session, n);
  if (status == ELQ_OK) return ok_status();
  return runtime_error(status, nullptr, state_->subject + ", rewind");
}

std::uint64_t PackageModel::session_bytes() const {
  return elq_session_bytes(state_->session);
}

Status PackageModel::selftest() const {
  elq_error_info info{"", 0};
  const elq_status status = elq_selftest(state_->model, state_->impl, &info);
  if (status == ELQ_OK) return ok_status();
  return runtime_error(status, &info, state_->subject);
}

}  // namespace elastiq
