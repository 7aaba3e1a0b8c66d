// Counts the frames that refer to registered memory, so that it can end only when none does.
#pragma once

#include <array>
#include <cstdint>

#include <rte_mbuf.h>

#include "pmd_glue/tx_path.h"

namespace uroce::glue {

/// One thread uses it.
class PayloadReferences {
 public:
  /// `path` outlives it: the frames leave there.
  explicit PayloadReferences(TxPath& path);
  PayloadReferences(const PayloadReferences&) = delete;
  PayloadReferences& operator=(const PayloadReferences&) = delete;

  /// Counts `spans` references of a new frame. Attach them with what it returns.
  rte_mbuf_ext_shared_info& add(uint8_t spans) {
    rte_mbuf_ext_shared_info& shared = this->shared(generation_);
    rte_mbuf_ext_refcnt_update(&shared, static_cast<int16_t>(spans));
    return shared;
  }
  /// No frame refers to anything any more.
  void forget();
  /// See transport::FrameSink.
  bool any();
  uint64_t mark() const { return generation_; }
  bool any_before(uint64_t mark);

 private:
  rte_mbuf_ext_shared_info& shared(uint64_t generation) { return shared_[generation % 2]; }

  TxPath& path_;
  /// Each is 1 + the references in flight. Frames of generation g count at g % 2. A generation ends when somebody waits
  /// for it and the one before it has ended, so new frames never prolong the wait.
  std::array<rte_mbuf_ext_shared_info, 2> shared_{};
  uint64_t generation_ = 0;
};

}  // namespace uroce::glue
