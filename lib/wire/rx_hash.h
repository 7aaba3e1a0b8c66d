// The hash of receive-side scaling, by which a rule picks one of several queue pairs (include/uroce/flow.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <uroce/error.h>
#include <uroce/flow.h>

#include "wire/flow_key.h"

namespace uroce::wire {

/// Most bytes that a key hashes: two IPv6 addresses and two ports.
inline constexpr std::size_t kMaxHashInput = 36;

/// The Toeplitz hash ("RSS Hashing Functions", Microsoft): bit i of the input, counted from the first byte's highest,
/// adds bits [i, i + 32) of the key. `input` has at most kMaxHashInput bytes.
uint32_t toeplitz(std::span<const uint8_t, RxHash::kKeyBytes> key, std::span<const std::byte> input);

/// The hash of a frame with the fields `key`.
uint32_t rx_hash(const RxHash& hash, const FlowKey& key);

/// Errors: EINVAL naming the fields that are unknown.
Result<void> check_rx_hash(const RxHash& hash);

}  // namespace uroce::wire
