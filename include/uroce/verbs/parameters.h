// Parameters of new objects (Context::create_cq(), open_xrc_domain(), create_qp()). Plain values.
#pragma once

#include <uroce/types.h>

namespace uroce {

/// Parameters of a new completion queue (struct ibv_cq_init_attr_ex).
struct CqOptions {
  /// A completion without room is dropped and counted (completions_dropped). Else it is an error of queue and QP.
  bool ignore_overrun = false;
};

/// How to open an XRC domain (struct ibv_xrcd_init_attr).
struct XrcDomainInit {
  /// Openers with descriptors of one inode get one domain. -1: nobody else gets it. The caller may close it after the
  /// call.
  int fd = -1;
  bool create = true;      ///< O_CREAT: make the domain if the inode has none
  bool exclusive = false;  ///< O_EXCL: refuse an inode that has one
};

/// Parameters of a new queue pair (struct ibv_qp_init_attr).
struct QpInit {
  QpType type = QpType::rc;
  QpCap cap{};              ///< at most the device's max_qp_wr, max_sge, max_inline; see QueuePair::cap()
  bool signal_all = false;  ///< treat every send work request as if it had SendFlag::signaled
  int engine = -1;  ///< 0..DeviceInfo::engines - 1; -1: the shared receive queue's engine, else the next in turn
  Retransmission retransmission = Retransmission::device_default;                ///< RC and XRC only
  CongestionAlgorithm congestion_control = CongestionAlgorithm::device_default;  ///< RC and XRC only
};

}  // namespace uroce
