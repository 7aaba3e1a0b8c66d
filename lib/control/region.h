// Protection domains and registered memory.
#pragma once

#include <cstdint>
#include <memory>

#include <uroce/error.h>

#include "memory/region_table.h"

namespace uroce::control {

class DeviceSession;

/// A protection domain. Its regions, windows and queue pairs keep it, so its number stays taken until the last of them
/// is gone.
class Pd {
 public:
  /// `id`: taken for it.
  Pd(std::shared_ptr<DeviceSession> session, memory::PdId id) : session_(std::move(session)), id_(id) {}
  ~Pd();
  Pd(const Pd&) = delete;
  Pd& operator=(const Pd&) = delete;

  memory::PdId id() const { return id_; }
  const std::shared_ptr<DeviceSession>& session() const { return session_; }

 private:
  std::shared_ptr<DeviceSession> session_;
  memory::PdId id_;
};

/// Registered memory. When the last reference goes, its key stops working at once, and no engine touches the memory
/// after the release has returned.
class Region {
 public:
  Region(std::shared_ptr<Pd> pd, memory::Key key, const memory::RegionSpec& spec, std::shared_ptr<void> backing)
      : pd_(std::move(pd)), key_(key), spec_(spec), backing_(std::move(backing)) {}
  memory::Key key() const { return key_; }
  const memory::RegionSpec& spec() const { return spec_; }
  const std::shared_ptr<Pd>& pd() const { return pd_; }

  /// Another range, domain or access under the same key (ibv_rereg_mr(3)); one caller at a time. Work that uses the key
  /// meanwhile fails. Errors: EINVAL, EBUSY (memory windows are bound to it), with nothing changed; ENODEV, ETIMEDOUT,
  /// with the key ended.
  Result<void> change(std::shared_ptr<Pd> pd, uint64_t address, uint64_t length, std::byte* host, AccessFlags access,
                      std::shared_ptr<void> backing);

  /// Deleter: removes the key, waits for the engines, frees the slot.
  static void destroy(Region* region);

 private:
  std::shared_ptr<Pd> pd_;
  memory::Key key_;
  memory::RegionSpec spec_;
  std::shared_ptr<void> backing_;  // owns the memory; outlives the engines' use of it
};

}  // namespace uroce::control
