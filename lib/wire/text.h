// One packet, one line: what packet scripts are written in and what traces print.
//
//   RC WRITE_FIRST qp=0x11 psn=5 ack_req va=0x1000 rkey=0x1234 len=2048 payload=1024
//   RC ACK qp=0x12 psn=5 syndrome=ack credits=31 msn=1
#pragma once

#include <string>

#include "wire/packet.h"

namespace uroce::wire {

/// Transport headers and payload length only; with `addresses`, IP, MAC and UDP source port in front.
std::string to_text(const Packet& packet, bool addresses = false);

}  // namespace uroce::wire
