#include "cm/ib_cm_state.h"

namespace uroce::cm {

std::string_view name(CmState state) {
  switch (state) {
    case CmState::req_sent: return "REQ sent";
    case CmState::rep_received: return "REP received";
    case CmState::req_received: return "REQ received";
    case CmState::rep_sent: return "REP sent";
    case CmState::established: return "established";
    case CmState::dreq_sent: return "DREQ sent";
    case CmState::timewait: return "time-wait";
    case CmState::sidr_sent: return "SIDR_REQ sent";
    case CmState::sidr_received: return "SIDR_REQ received";
    case CmState::closed: return "closed";
  }
  return "unknown";
}

}  // namespace uroce::cm
