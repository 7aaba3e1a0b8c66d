#include "validate/requests.h"

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "validate/transitions.h"

namespace uroce::validate {

namespace {

constexpr const char* kOpcodes[] = {"RDMA WRITE",  "RDMA WRITE with immediate", "SEND",          "SEND with immediate",
                                    "RDMA READ",   "compare and swap",          "fetch and add", "local invalidate",
                                    "bind window", "SEND with invalidate"};

std::string name_of(WrOpcode opcode) {
  const auto index = static_cast<std::size_t>(opcode);
  if (index < std::size(kOpcodes)) return kOpcodes[index];
  return opcode == WrOpcode::flush ? "FLUSH" : opcode == WrOpcode::atomic_write ? "ATOMIC WRITE" : "an unknown one";
}

/// Its operation on this queue pair.
void check_operation(const Qp& qp, const SendRequest& request, const std::string& name, Found& found) {
  const std::string operation = fmt::format("{} is {}", name, name_of(request.opcode));
  if (!offers(qp.facts.type, request.opcode)) {
    constexpr const char* kTypes[] = {"",          "", "RC", "UC", "UD", "", "", "", "raw packet", "XRC initiator",
                                      "XRC target"};
    found.push_back({Misuse::wrong_opcode, fmt::format("{}, on a queue pair of type {}", operation,
                                                       kTypes[static_cast<int>(qp.facts.type)])});
    return;
  }
  const auto declared = qp.facts.operations;
  if (declared && (*declared >> static_cast<unsigned>(request.opcode) & 1) == 0) {
    found.push_back({Misuse::undeclared_operation, operation});
  }
  if (is_read_or_atomic(request.opcode) && qp.facts.max_rd_atomic == 0) found.push_back({Misuse::no_reads, operation});
  if (!is_atomic(request.opcode)) return;
  if (request.remote_addr % 8 != 0) {
    found.push_back({Misuse::atomic_unaligned, fmt::format("{} at {:#x}", operation, request.remote_addr)});
  }
  if (const uint64_t length = length_of(request); length != 8) {
    found.push_back({Misuse::atomic_length, fmt::format("{}, and its entries have {} bytes", operation, length)});
  }
}

}  // namespace

uint64_t length_of(const SendRequest& request) {
  uint64_t length = request.inline_data.size();
  for (const Sge& sge : request.sges) length += sge.length;
  return length;
}

void check_entries(std::span<const Sge> sges, uint32_t most, const Owner& owner, bool written, const Regions& regions,
                   const std::string& name, Found& found) {
  if (sges.size() > most) {
    found.push_back({Misuse::too_many_sges, fmt::format("{} has {} entries of {}", name, sges.size(), most)});
    return;  // the list need not be that long
  }
  for (std::size_t i = 0; i < sges.size(); ++i) {
    const auto fault = regions.check(sges[i], owner, written, fmt::format("entry {} of {}", i, name));
    if (fault) found.push_back(*fault);
  }
}

void check_send(const Qp& qp, const SendRequest& request, const Regions& regions, const std::string& name,
                Found& found) {
  const QpFacts& facts = qp.facts;
  if (qp.state == QpState::reset || qp.state == QpState::init || qp.state == QpState::rtr) {
    found.push_back({Misuse::send_state, fmt::format("{} is posted in {}", name, name_of(qp.state))});
  }
  if (request.sges.size() > facts.cap.max_send_sge) {
    return check_entries(request.sges, facts.cap.max_send_sge, qp.owner(), false, regions, name, found);
  }
  check_operation(qp, request, name, found);
  if (is_local(request.opcode)) return;
  const uint64_t length = length_of(request);
  if (facts.type == QpType::ud && length > facts.datagram_limit) {
    found.push_back(
        {Misuse::datagram_too_long, fmt::format("{} has {} bytes of {}", name, length, facts.datagram_limit)});
  }
  if (!request.flags.has(SendFlag::inline_data)) {
    const bool written = is_read_or_atomic(request.opcode);
    return check_entries(request.sges, facts.cap.max_send_sge, qp.owner(), written, regions, name, found);
  }
  if (length > facts.cap.max_inline_data) {
    found.push_back({Misuse::inline_too_long,
                     fmt::format("{} has {} inline bytes of {}", name, length, facts.cap.max_inline_data)});
  }
}

}  // namespace uroce::validate
