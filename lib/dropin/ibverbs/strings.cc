// Texts for enumerators, the same as rdma-core's: programs and their tests compare them.
#include "dropin/ibverbs/texts.h"

#include <cstddef>

namespace uroce::dropin {

namespace {

template <std::size_t N>
const char* pick(const char* const (&words)[N], int index) {
  return index >= 0 && static_cast<std::size_t>(index) < N && words[index] != nullptr ? words[index] : "unknown";
}

}  // namespace

const char* text_of(ibv_wr_opcode opcode) {
  static const char* const kWords[] = {
      "rdma-write",
      "rdma-write-with-imm",
      "send",
      "send-with-imm",
      "rdma-read",
      "atomic-cmp-and-swp",
      "atomic-fetch-and-add",
      "local-inv",
      "bind-mw",
      "send-with-inv",
      "tso",
      "driver1",
      nullptr,
      nullptr,
      "flush",
      "atomic-write",
  };
  return pick(kWords, opcode);
}

}  // namespace uroce::dropin

using namespace uroce::dropin;

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) {
  static const char* const kWords[] = {nullptr,
                                       "InfiniBand channel adapter",
                                       "InfiniBand switch",
                                       "InfiniBand router",
                                       "iWARP NIC",
                                       "usNIC",
                                       "usNIC UDP",
                                       "unspecified"};
  return pick(kWords, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static const char* const kWords[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  return pick(kWords, state);
}

const char* ibv_event_type_str(ibv_event_type event) {
  static const char* const kWords[] = {
      "CQ error",
      "local work queue catastrophic error",
      "invalid request local work queue error",
      "local access violation work queue error",
      "communication established",
      "send queue drained",
      "path migrated",
      "path migration request error",
      "local catastrophic error",
      "port active",
      "port error",
      "LID change",
      "P_Key change",
      "SM change",
      "SRQ catastrophic error",
      "SRQ limit reached",
      "last WQE reached",
      "client reregistration",
      "GID table change",
      "WQ fatal",
      "Device link speed change",
  };
  return pick(kWords, event);
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static const char* const kWords[] = {
      "success",
      "local length error",
      "local QP operation error",
      "local EE context operation error",
      "local protection error",
      "Work Request Flushed Error",
      "memory management operation error",
      "bad response error",
      "local access error",
      "remote invalid request error",
      "remote access error",
      "remote operation error",
      "transport retry counter exceeded",
      "RNR retry counter exceeded",
      "local RDD violation error",
      "remote invalid RD request",
      "aborted error",
      "invalid EE context number",
      "invalid EE context state",
      "fatal error",
      "response timeout error",
      "general error",
      "TM error",
      "TM software rendezvous",
  };
  return pick(kWords, status);
}

}  // extern "C"
