// The text form of packets, one line each. Traces print it, and packet scripts are written in it
// (tests/support/packet_text.h reads them).
//
//   RC WRITE_FIRST qp=0x11 psn=5 ack_req va=0x1000 rkey=0x1234 len=2048 payload=1024
//   RC ACK qp=0x12 psn=5 syndrome=ack credits=31 msn=1
//
// Grammar (words are separated by blanks, in any order after the operation; numbers are decimal or 0x hexadecimal):
//
//   packet    = [transport] operation {field}
//   transport = "RC" | "UC" | "UD" | "XRC"         RC where absent; CNP, HELLO and SACK have none
//   operation = a name of the opcode table, "SEND_FIRST", "ACK", "CNP", ...; "NAK" and "RNR" read as ACK
//   field     = "qp=" n | "psn=" n | "pkey=" n     default 0, 0, 0xffff
//             | "se" | "ack_req" | "fecn" | "becn" flags of the BTH
//             | "mig=" n                           MigReq, default 1
//             | "rsv6=" n | "rsv7=" n              reserved bits of the BTH, default 0
//             | "va=" n | "rkey=" n                RETH and AtomicETH
//             | "len=" n                           RETH: bytes of the message
//             | "plt=" n | "sel=" n | "feth_rsv=" n   FETH: placement type, selectivity level
//             | "compare=" n | "swap=" n | "add=" n  AtomicETH; swap and add are the same eight bytes
//             | "syndrome=" ("ack" | "rnr" | "nak" | n) | "credits=" n | "timer=" n | "code=" nak | "msn=" n   AETH
//             | "orig=" n                          AtomicAckETH
//             | "imm=" n | "inv_rkey=" n           ImmDt, IETH
//             | "qkey=" n | "src_qp=" n | "deth_rsv=" n   DETH
//             | "srq=" n | "xrceth_rsv=" n         XRCETH
//             | "payload=" n                       bytes of payload, without pad
//             | "epoch=" n                         HELLO and SACK; these fields are their payload
//             | "peer_epoch=" n | "parking=" n | "port=" n | "answer"   HELLO; defaults: epoch 1, peer_epoch 0,
//                                             parking 255, port 0
//             | "base=" n | "echo=" n | "tag=" n | "dup" | "hold=" n   SACK
//             | "bits=" psns | "words=" n          SACK: PSNs after base that have arrived; default: words as needed
//   psns      = "none" | n ["-" n] {"," n ["-" n]}
//   nak       = "psn_sequence" | "invalid_request" | "remote_access" | "remote_operational" | "invalid_rd_request" | n
//
// A field of a header that the operation does not have is an error. An ACK without "syndrome" has credits=31. A NAK
// without "code" is a PSN sequence error.
#pragma once

#include <string>

#include "wire/packet.h"

namespace uroce::wire {

/// Writes the transport headers and the payload length. With `addresses`, MAC, VLAN, IP and UDP source port come first.
/// BTH fields with their default value are left out.
std::string to_text(const Packet& packet, bool addresses = false);

}  // namespace uroce::wire
