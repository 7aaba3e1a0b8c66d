// The settings of a packet script, from what control did to an engine and a queue pair.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/structures.h"

namespace uroce::record {

class ScriptSettings {
 public:
  explicit ScriptSettings(const EngineRecord& engine) : engine_(engine) {}
  void attach(const QpRecord& qp, const SrqRecord* srq);
  /// The settings are those of the first connection, up to RTS.
  void modify(const ModifyRecord& modify);

  uint32_t burst() const { return engine_.burst; }
  /// `set` lines of a script that begins at this time.
  std::string lines(Nanos start) const;
  /// Settings for which the language has no words.
  std::vector<std::string> left_out() const;

 private:
  EngineRecord engine_;
  QpRecord qp_{};
  std::optional<SrqRecord> srq_;
  QpAttr attr_{};
  QpAttrMask mask_{};
  std::optional<wire::Route> route_;
  bool loopback_ = false;
};

}  // namespace uroce::record
