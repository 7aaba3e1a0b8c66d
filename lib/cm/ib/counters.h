// The counters of one device's connection manager.
#pragma once

#include "base/counter.h"

namespace uroce::cm {

struct IbCmCounters {
  // Messages sent and received, without retransmissions and duplicates.
  Counter req_sent, req_received, mra_sent, mra_received, rej_sent, rej_received, rep_sent, rep_received, rtu_sent,
      rtu_received, dreq_sent, dreq_received, drep_sent, drep_received, sidr_req_sent, sidr_req_received, sidr_rep_sent,
      sidr_rep_received;
  Counter resent;        ///< messages retransmitted
  Counter duplicates;    ///< messages received again
  Counter malformed;     ///< not a CM MAD: wrong class, version or method, or fields out of range
  Counter unknown_id;    ///< messages for a connection that does not exist
  Counter out_of_state;  ///< messages that the connection's state does not allow
  Counter no_listener;   ///< REQs for a service without a listener
  Counter backlog_full;  ///< REQs beyond a listener's backlog; dropped, the peer repeats them
  Counter withdrawn;     ///< REQs that made room for another one; the peer repeats them
  Counter stale;         ///< REQs and REPs of a queue pair that is still connected here
  Counter table_full;    ///< REQs beyond `max_connections`; dropped, the peer repeats them
};

}  // namespace uroce::cm
