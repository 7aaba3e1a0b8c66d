// The passive side of a verified run: the memory that the peer reads, writes or changes by atomics.
#pragma once

#include <optional>
#include <string>

#include "perf/endpoint.h"
#include "perf/exchange.h"

namespace uroce::perf::rounds {

/// The words of atomics at their starting values. `own`: this side's direction.
void start_words(Endpoint& endpoint, const Options& options, uint32_t own);
/// Each returns a sentence about the first wrong byte, or about a round that does not fit the exposed memory.
std::optional<std::string> check_words(const Endpoint& endpoint, const Options& options, const Round& round,
                                       uint32_t own);
std::optional<std::string> check_writes(const Endpoint& endpoint, const Options& options, const Round& round,
                                        uint32_t peer);
std::optional<std::string> fill_for_reads(Endpoint& endpoint, const Options& options, const Round& round, uint32_t own);

}  // namespace uroce::perf::rounds
