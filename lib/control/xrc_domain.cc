#include "control/xrc_domain.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/device.h"

namespace uroce::control {

Result<std::shared_ptr<XrcDomain>> XrcDomain::open(const std::shared_ptr<Device>& device, std::optional<XrcFile> file,
                                                   How how, std::shared_ptr<void> keeps) {
  std::shared_ptr<XrcDomain> found;  // before the lock: the last reference may go here, and it takes the lock
  const auto lock = device->runner().lock();
  if (auto alive = device->check_alive(); !alive) return std::unexpected(alive.error());
  XrcFiles& files = device->objects().xrc_files();
  if (file) {
    found = files.find(*file);
    if (found != nullptr && how.exclusive) {
      return fail(EINVAL,
                  fmt::format("{} has an XRC domain for inode {} already; open it without O_EXCL, or with another file",
                              device->config().name, file->inode));
    }
    if (found != nullptr) return found;
    if (!how.create) {
      return fail(EAGAIN, fmt::format("{} has no XRC domain for inode {}; open it with O_CREAT, which makes one",
                                      device->config().name, file->inode));
    }
  }
  const XrcDomainState state{.id = device->objects().xrc_domains().take(),
                             .engine = device->objects().choose_engine(device->engines())};
  std::shared_ptr<XrcDomain> made(new XrcDomain(device, file, std::move(keeps), state));
  if (file) files.add(*file, made);
  return made;
}

Result<std::shared_ptr<XrcDomain>> XrcDomain::adopt(const std::shared_ptr<Device>& device, const XrcDomainState& as,
                                                    std::optional<XrcFile> file, std::shared_ptr<void> keeps) {
  std::shared_ptr<XrcDomain> found;  // before the lock: the last reference may go here, and it takes the lock
  const auto lock = device->runner().lock();
  if (auto alive = device->check_alive(); !alive) return std::unexpected(alive.error());
  XrcFiles& files = device->objects().xrc_files();
  found = files.find(as.id);
  if (found != nullptr && found->file_ == file && found->engine_ == as.engine) return found;
  const bool taken = found != nullptr || (file && files.find(*file) != nullptr) || as.engine >= device->engines();
  if (taken || !device->objects().xrc_domains().take(as.id)) {
    return fail(EINVAL, fmt::format("{} cannot have XRC domain {} on engine {}: another one has its number or its file",
                                    device->config().name, as.id, as.engine));
  }
  std::shared_ptr<XrcDomain> made(new XrcDomain(device, file, std::move(keeps), as));
  if (file) files.add(*file, made);
  files.add(as.id, made);
  return made;
}

XrcDomain::XrcDomain(std::shared_ptr<Device> device, std::optional<XrcFile> file, std::shared_ptr<void> keeps,
                     const XrcDomainState& state)
    : device_(std::move(device)), file_(file), keeps_(std::move(keeps)), id_(state.id), engine_(state.engine) {}

XrcDomain::~XrcDomain() {
  const auto lock = device_->runner().lock();
  if (file_) device_->objects().xrc_files().forget(*file_);
  device_->objects().xrc_files().forget(id_);
  device_->objects().xrc_domains().give_back(id_);
}

void XrcDomain::add(uint32_t qpn, const std::shared_ptr<ControlQp>& target) {
  const std::scoped_lock lock(mutex_);
  targets_[qpn] = target;
}

void XrcDomain::remove(uint32_t qpn) {
  const std::scoped_lock lock(mutex_);
  targets_.erase(qpn);
}

Result<std::shared_ptr<ControlQp>> XrcDomain::target(uint32_t qpn) const {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = targets_.find(qpn);
    if (found != targets_.end()) {
      if (auto target = found->second.lock()) return target;
    }
  }
  return fail(EINVAL, fmt::format("the XRC domain has no target queue pair {:#x}; ask the program that made it for its "
                                  "number",
                                  qpn));
}

}  // namespace uroce::control
