// The keys of a device: memory regions and windows, which share one table and one limit.
//
// Engines look keys up without a lock. A removed key stops working at once. Its slot and its memory's owner are
// released once every engine was between two bursts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "base/secret.h"
#include "control/engine_runner.h"
#include "memory/region_table.h"

namespace uroce::control {

class KeyRegistry {
 public:
  /// `device`: its name, for messages. `seed`: for keys.
  KeyRegistry(std::string device, uint32_t max_mr, const Secret& seed);

  // --- With the control lock held ---
  /// Errors: ENOMEM (max_mr), and those of RegionTable::add().
  Result<memory::Key> add(const memory::RegionSpec& spec, const memory::KeyState* as = nullptr,
                          memory::SlotChoice slot = memory::SlotChoice::secret);
  /// Errors: likewise.
  Result<memory::Key> add_null(memory::PdId pd, const memory::KeyState* as = nullptr);
  Result<memory::Key> add_window(memory::PdId pd, WindowType type, const memory::KeyState* as = nullptr);
  /// Until resume(), work that uses the key fails.
  void suspend(memory::Key key) { table_.suspend(key); }
  void resume(memory::Key key, const memory::RegionSpec& spec) { table_.resume(key, spec); }

  // --- Without it ---
  /// Removes the key, waits for the engines, frees its slot and releases `backing`. If an engine does not reply, slot
  /// and backing stay until another key is removed.
  void end(memory::Key key, std::shared_ptr<void> backing, EngineRunner& runner);
  /// Memory windows bound to the region of `key`; 0 where there is none. Any thread.
  uint32_t bound_windows(memory::Key key) const { return table_.windows(key); }

  /// Engines read it.
  memory::RegionTable& table() { return table_; }
  const memory::RegionTable& table() const { return table_; }

 private:
  /// Errors: ENOMEM (max_mr).
  Result<void> check_room() const;

  struct Ended {
    memory::Key key;
    std::shared_ptr<void> backing;
  };

  std::string device_;
  uint32_t max_mr_;
  memory::RegionTable table_;
  std::vector<Ended> unretired_;  // engines may still use these; guarded by the control lock
};

}  // namespace uroce::control
