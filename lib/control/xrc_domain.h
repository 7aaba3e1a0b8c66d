// An XRC domain (IBTA vol. 1, annex A14): the shared receive queues that its target queue pairs serve. Several programs
// may have it, and each of its target queue pairs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <uroce/error.h>

#include "control/object_state.h"
#include "control/xrc_files.h"

namespace uroce::control {

class ControlQp;
class Device;

/// Any thread. Its shared receive queues and target queue pairs keep it.
class XrcDomain {
 public:
  /// Whether an open may make the domain: O_CREAT and O_EXCL of ibv_open_xrcd(3).
  struct How {
    bool create = false;
    bool exclusive = false;
  };
  /// The domain of `file`, or a new one; without a file always a new one. A new one holds `keeps` as long as it lives.
  /// Errors: as Linux has them, EAGAIN (the file has none, and `how.create` is not set), EINVAL (it has one, and
  /// `how.exclusive` is set); ENODEV.
  static Result<std::shared_ptr<XrcDomain>> open(const std::shared_ptr<Device>& device, std::optional<XrcFile> file,
                                                 How how, std::shared_ptr<void> keeps);
  /// The domain of another daemon, which comes once for each of its users. Errors: EINVAL (another one has its number
  /// or its file), ENODEV.
  static Result<std::shared_ptr<XrcDomain>> adopt(const std::shared_ptr<Device>& device, const XrcDomainState& as,
                                                  std::optional<XrcFile> file, std::shared_ptr<void> keeps);
  ~XrcDomain();
  XrcDomain(const XrcDomain&) = delete;
  XrcDomain& operator=(const XrcDomain&) = delete;

  /// Engines know the domain by this number of the device; never 0.
  uint32_t id() const { return id_; }
  /// All that belongs to the domain lives on one engine, because engines share nothing.
  uint32_t engine() const { return engine_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  /// Null without a file.
  const std::shared_ptr<void>& keeps() const { return keeps_; }

  void add(uint32_t qpn, const std::shared_ptr<ControlQp>& target);
  void remove(uint32_t qpn);
  /// Errors: EINVAL (no target queue pair of the domain has this number).
  Result<std::shared_ptr<ControlQp>> target(uint32_t qpn) const;

 private:
  XrcDomain(std::shared_ptr<Device> device, std::optional<XrcFile> file, std::shared_ptr<void> keeps,
            const XrcDomainState& state);

  std::shared_ptr<Device> device_;
  std::optional<XrcFile> file_;
  std::shared_ptr<void> keeps_;
  uint32_t id_;
  uint32_t engine_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::weak_ptr<ControlQp>> targets_;  // guarded by mutex_
};

}  // namespace uroce::control
