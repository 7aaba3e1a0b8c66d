// The names of enumerators in packet scripts (tests/script) and in the text of recordings.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <uroce/types.h>

#include "base/status_names.h"

namespace uroce::record::names {

template <class E>
using Name = std::pair<std::string_view, E>;

inline constexpr std::array kWcOpcodeNames{
    Name<WcOpcode>{"send", WcOpcode::send},
    Name<WcOpcode>{"write", WcOpcode::rdma_write},
    Name<WcOpcode>{"read", WcOpcode::rdma_read},
    Name<WcOpcode>{"compare_swap", WcOpcode::compare_swap},
    Name<WcOpcode>{"fetch_add", WcOpcode::fetch_add},
    Name<WcOpcode>{"recv", WcOpcode::recv},
    Name<WcOpcode>{"recv_write_imm", WcOpcode::recv_rdma_with_imm},
    Name<WcOpcode>{"flush", WcOpcode::flush},
    Name<WcOpcode>{"atomic_write", WcOpcode::atomic_write},
    Name<WcOpcode>{"local_invalidate", WcOpcode::local_invalidate},
};

inline constexpr std::array kWrOpcodeNames{
    Name<WrOpcode>{"SEND", WrOpcode::send},
    Name<WrOpcode>{"SEND_IMM", WrOpcode::send_with_imm},
    Name<WrOpcode>{"SEND_INV", WrOpcode::send_with_invalidate},
    Name<WrOpcode>{"WRITE", WrOpcode::rdma_write},
    Name<WrOpcode>{"WRITE_IMM", WrOpcode::rdma_write_with_imm},
    Name<WrOpcode>{"READ", WrOpcode::rdma_read},
    Name<WrOpcode>{"FETCH_ADD", WrOpcode::fetch_add},
    Name<WrOpcode>{"CMP_SWAP", WrOpcode::compare_swap},
    Name<WrOpcode>{"FLUSH", WrOpcode::flush},
    Name<WrOpcode>{"ATOMIC_WRITE", WrOpcode::atomic_write},
    Name<WrOpcode>{"LOCAL_INV", WrOpcode::local_invalidate},
};

inline constexpr std::array kEventNames{
    Name<AsyncEventType>{"cq_error", AsyncEventType::cq_error},
    Name<AsyncEventType>{"qp_fatal", AsyncEventType::qp_fatal},
    Name<AsyncEventType>{"qp_request_error", AsyncEventType::qp_request_error},
    Name<AsyncEventType>{"qp_access_error", AsyncEventType::qp_access_error},
    Name<AsyncEventType>{"communication_established", AsyncEventType::communication_established},
    Name<AsyncEventType>{"sq_drained", AsyncEventType::sq_drained},
    Name<AsyncEventType>{"srq_error", AsyncEventType::srq_error},
    Name<AsyncEventType>{"srq_limit_reached", AsyncEventType::srq_limit_reached},
    Name<AsyncEventType>{"last_wqe_reached", AsyncEventType::last_wqe_reached},
};

inline constexpr std::array kTypeNames{
    Name<QpType>{"rc", QpType::rc},
    Name<QpType>{"uc", QpType::uc},
    Name<QpType>{"ud", QpType::ud},
    Name<QpType>{"raw", QpType::raw_packet},
    Name<QpType>{"xrc_initiator", QpType::xrc_initiator},
    Name<QpType>{"xrc_target", QpType::xrc_target},
};

inline constexpr std::array kStateNames{
    Name<QpState>{"reset", QpState::reset}, Name<QpState>{"init", QpState::init}, Name<QpState>{"rtr", QpState::rtr},
    Name<QpState>{"rts", QpState::rts},     Name<QpState>{"sqd", QpState::sqd},   Name<QpState>{"sqe", QpState::sqe},
    Name<QpState>{"error", QpState::error},
};

inline constexpr std::array kAccessNames{
    Name<Access>{"local_write", Access::local_write},
    Name<Access>{"remote_write", Access::remote_write},
    Name<Access>{"remote_read", Access::remote_read},
    Name<Access>{"remote_atomic", Access::remote_atomic},
    Name<Access>{"flush_global", Access::flush_global},
    Name<Access>{"flush_persistent", Access::flush_persistent},
    Name<Access>{"remote_invalidate", Access::remote_invalidate},
};

template <class E, std::size_t N>
std::optional<E> enum_of(const std::array<Name<E>, N>& names, std::string_view name) {
  for (const auto& [text, value] : names) {
    if (text == name) return value;
  }
  return std::nullopt;
}

template <class E, std::size_t N>
std::string name_of(const std::array<Name<E>, N>& names, E value) {
  for (const auto& [text, e] : names) {
    if (e == value) return std::string(text);
  }
  return std::to_string(static_cast<int>(value));
}

}  // namespace uroce::record::names
