#include "pmd_glue/missing_icrc.h"

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::glue {

uint64_t missing_icrc_flag() {
  static const uint64_t kFlag = [] {
    constexpr rte_mbuf_dynflag kWanted{.name = "uroce_missing_icrc", .flags = 0};
    const int bit = rte_mbuf_dynflag_register(&kWanted);
    return bit < 0 ? 0 : uint64_t{1} << bit;
  }();
  return kFlag;
}

void fill_in_icrc(rte_mbuf& mbuf) {
  mbuf.ol_flags &= ~missing_icrc_flag();
  std::byte* const start = rte_pktmbuf_mtod(&mbuf, std::byte*);
  const auto packet = wire::parse({start, mbuf.data_len}, wire::Icrc::absent);
  if (!packet) return;
  std::byte* const trailer = start + mbuf.data_len - wire::kIcrcBytes;
  const std::byte* l3 = start + packet->l3_offset;
  store_le32(trailer, wire::icrc_of({l3, trailer}, packet->ip_version));
}

}  // namespace uroce::glue
