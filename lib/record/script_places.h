// The memory that a recording's keys open, as regions of a packet script.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "record/replayer.h"

namespace uroce::record {

/// Looks on at a replay, and knows then which memory each key opened.
class ScriptPlaces final : public Watch {
 public:
  bool on_frame(const Passing&, transport::Engine&) override { return true; }
  void on_stop(transport::Engine&) override {}
  void on_lookup(const Lookup& lookup) override;

  /// `region+offset`, where the key has opened the memory; nullopt: it never did.
  std::optional<std::string> place(memory::Key key, uint64_t address);
  /// `region.key`; nullopt likewise.
  std::optional<std::string> key(memory::Key key);
  /// The key's region, as `key()` names it.
  std::optional<std::string> name(memory::Key key);
  /// Did it open nothing whenever somebody asked?
  bool is_wrong(memory::Key key) const;
  /// The lines that make the regions which were asked for, and how many of them are too large.
  std::string lines() const;
  uint32_t too_large() const;

 private:
  struct Region {
    uint64_t first = UINT64_MAX, end = 0;
    AccessFlags access{};
    bool opened = false;
    bool refused = false;  ///< what it does not permit was asked of it
    uint32_t number = 0;   ///< from 1; 0: nobody asked
    uint64_t base() const { return end == 0 ? 0 : first & ~uint64_t{63}; }
    uint64_t bytes() const { return end - base(); }
  };
  Region* find(memory::Key key);

  std::map<memory::Key, Region> regions_;
  uint32_t used_ = 0;
};

}  // namespace uroce::record
