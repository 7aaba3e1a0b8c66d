// The private interface between the two libraries: what librdmacm asks of libibverbs beyond the public calls.
//
// libibverbs exports one function that returns a table (version node UROCE_PRIVATE_1 of libibverbs.map). The node makes
// the loader refuse rdma-core's libibverbs; the numbers in the table let librdmacm refuse one of another uroce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <version>

#include <infiniband/verbs.h>

#include <uroce/cm.h>
#include <uroce/verbs/queue_pair.h>

namespace uroce::dropin {

/// Raise with every change of VerbsTable or of what its functions do.
inline constexpr uint32_t kVerbsTableVersion = 5;

/// The release of the C++ library, of which each library has a copy inside. Strings and errors pass between them, and
/// one copy frees the memory of the other.
#ifdef __GLIBCXX__
inline constexpr uint32_t kCxxLibrary = __GLIBCXX__;
#else
inline constexpr uint32_t kCxxLibrary = _LIBCPP_VERSION;
#endif

struct VerbsTable {
  uint32_t version;    ///< kVerbsTableVersion
  uint32_t size;       ///< bytes of this structure
  uint32_t step_size;  ///< bytes of QueuePair::Step
  uint32_t cxx;        ///< kCxxLibrary
  /// ConnectionManager::open(), on the process's connection to the daemon, which its devices use, too.
  Result<ConnectionManager> (*open_connection_manager)();
  /// ibv_create_qp_ex(3), and then `count` steps, each as ibv_modify_qp(): one message to the daemon, but for an XRC
  /// target. Null with errno.
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attr, const QueuePair::Step* steps,
                       std::size_t count);
  /// The queue pair for calls of a CmId. It lives as long as `qp`.
  QueuePair* (*queue_pair)(ibv_qp* qp);
  /// The connection manager has moved the queue pair: its ibv_qp::state follows.
  void (*note_state)(ibv_qp* qp, ibv_qp_state state);
};
// Plain data: nothing in it depends on which of the libraries a function was compiled into.
static_assert(std::is_standard_layout_v<QueuePair::Step> && std::is_trivially_copyable_v<QueuePair::Step>);

}  // namespace uroce::dropin

extern "C" const uroce::dropin::VerbsTable* uroce_verbs_table();
