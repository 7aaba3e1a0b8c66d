// The private interface between the two libraries: what librdmacm asks of libibverbs beyond the public calls.
//
// libibverbs exports one function that returns a table (version node UROCE_PRIVATE_1 of libibverbs.map). The node makes
// the loader refuse rdma-core's libibverbs; the numbers in the table let librdmacm refuse one of another uroce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <infiniband/verbs.h>

#include <uroce/verbs/queue_pair.h>

namespace uroce::dropin {

/// Raise with every change of VerbsTable or of what its functions do.
inline constexpr uint32_t kVerbsTableVersion = 2;

struct VerbsTable {
  uint32_t version;    ///< kVerbsTableVersion
  uint32_t size;       ///< bytes of this structure
  uint32_t step_size;  ///< bytes of QueuePair::Step
  /// `count` changes of a queue pair in order, each as ibv_modify_qp(), up to the first that fails: one message to the
  /// daemon. 0, or an errno value.
  int (*modify_qp_steps)(ibv_qp* qp, const QueuePair::Step* steps, std::size_t count);
  /// See QueuePair::modify_with_next(). 0.
  int (*modify_qp_with_next)(ibv_qp* qp, const QueuePair::Step* step);
  /// See Context::lend(). 0, or an errno value.
  int (*lend)(ibv_context* context, const CmPass* pass);
  /// See QueuePair::carry(). 0 with `position`, or an errno value.
  int (*carry)(ibv_qp* qp, uint16_t operation, const std::byte* request, std::size_t bytes, uint64_t* position);
  /// See QueuePair::assume().
  void (*assume)(ibv_qp* qp, ibv_qp_state state);
  /// See Context::settle(). 0, or an errno value.
  int (*settle)(ibv_context* context, uint64_t position);
};
// Plain data: nothing in it depends on which of the libraries a function was compiled into.
static_assert(std::is_standard_layout_v<QueuePair::Step> && std::is_trivially_copyable_v<QueuePair::Step>);

}  // namespace uroce::dropin

extern "C" const uroce::dropin::VerbsTable* uroce_verbs_table();
