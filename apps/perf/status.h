// Turns a completion status into a sentence.
#pragma once

#include <cstdint>
#include <string>

#include <uroce/verbs/completion.h>

#include "perf/endpoint.h"
#include "perf/options.h"

namespace uroce::perf {

/// The fault of a work request on `endpoint`, and advice.
std::string explain(const Completion& completion, const Endpoint& endpoint, const Options& options);
/// Advice about a peer that does not answer, where `runnable` threads share this machine's `cpus`.
std::string silence_advice(uint32_t runnable, uint32_t cpus);
/// Seconds for which a QP tries before it reports retry_exceeded; 0 when it tries for ever.
double retry_budget_s(uint8_t qp_timeout);

}  // namespace uroce::perf
