// The specification of a queue pair: control fills it, make_qp() reads it.
#pragma once

#include <cstdint>

#include <uroce/types.h>

#include "memory/region_table.h"
#include "queues/doorbell.h"
#include "queues/ring.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"
#include "wire/gsi.h"

namespace uroce::transport {

using wire::kGsiQkey;
using wire::kGsiQpn;

struct QpSpec {
  uint32_t qpn = 0;  ///< 24 bits
  QpType type = QpType::rc;
  memory::PdId pd = 0;
  QpCap cap{};              ///< as created: ring sizes and strides agree with it
  bool signal_all = false;  ///< every send work request is signaled (sq_sig_all)
  Retransmission retransmission = Retransmission::device_default;
  CongestionAlgorithm congestion = CongestionAlgorithm::device_default;
  uint32_t window_packets = 256;  ///< most unacknowledged packets, as EngineConfig has it
  queues::RingPlace sq{};
  queues::RingPlace rq{};                 ///< entries == 0 with an SRQ
  queues::HeldRecv* held_recv = nullptr;  ///< with an SRQ; nullptr: none is told
  queues::DoorbellFlag* sq_doorbell = nullptr;
  uint32_t doorbell_ring = 0;   ///< id of the ring (Engine::attach_doorbells) that may ring for this QP
  CqWriter* send_cq = nullptr;  ///< this engine's end of the CQ
  CqWriter* recv_cq = nullptr;
  Srq* srq = nullptr;
  uint32_t xrc_domain = 0;  ///< XRC target: the domain of the shared receive queues that its requests may name
};

}  // namespace uroce::transport
