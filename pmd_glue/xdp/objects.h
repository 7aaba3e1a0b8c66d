// The compiled forms of steering.bpf.c, as bytes; empty in a build that found no clang for BPF.
#pragma once

#include <span>

namespace uroce::glue::xdp {

extern const std::span<const unsigned char> kRoceObject;   ///< RoCE goes to the sockets
extern const std::span<const unsigned char> kWholeObject;  ///< every frame does

}  // namespace uroce::glue::xdp
