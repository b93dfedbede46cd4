#include "formats/package.h"

#include "formats/package_internal.h"

namespace elastiq {

Result<Package> Package::open(const std::filesystem::path& path) {
  const std::string subject = path.string();
  Package p;
  ELQ_TRY(file, MappedFile::open(path));
  p.file_ = std::move(file);
  ELQ_TRY(container, package::read_container(p.file_.bytes(), subject));
  const std::size_t meta_index = container.find(ELQ_SECTION_META);
  ELQ_TRY(meta_section, package::read_section(container, meta_index, subject));
  auto meta = decode_meta(meta_section.bytes, subject);
  if (!meta.ok()) {
    Error error = meta.error();
    error.byte_offset += container.toc[meta_index].offset;
    return error;
  }
  p.meta_ = std::move(meta).value();
  ELQ_TRY(tensors, package::read_tensors(container, subject));
  p.header_ = container.header;
  p.toc_ = std::move(container.toc);
  p.tensors_ = std::move(tensors);
  return p;
}

Result<std::vector<std::byte>> Package::section(std::uint32_t type) const {
  for (std::size_t i = 0; i < toc_.size(); ++i) {
    if (toc_[i].type == type) return section_at(i);
  }
  return package::refuse(ErrorCode::kMissing, file_.path().string(), 0,
                         "no section " + package::section_name(type));
}

Result<std::vector<std::byte>> Package::section_at(std::size_t index) const {
  const std::string subject = file_.path().string();
  if (index >= toc_.size()) {
    return package::refuse(
        ErrorCode::kInvalidArgument, subject, 0,
        "section " + std::to_string(index) + " of " + std::to_string(toc_.size()));
  }
  const package::Container container{file_.bytes(), header_, toc_};
  ELQ_TRY(raw, package::read_section(container, index, subject));
  if (!raw.inflated.empty()) return std::move(raw.inflated);
  return std::vector<std::byte>(raw.bytes.begin(), raw.bytes.end());
}

Status Package::verify() const {
  const package::Container container{file_.bytes(), header_, toc_};
  return package::verify_contents(container, tensors_, file_.path().string());
}

}  // namespace elastiq
