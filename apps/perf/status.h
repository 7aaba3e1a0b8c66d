// Completion status as a sentence.
#pragma once

#include <string>
#include <string_view>

#include <uroce/verbs.h>

#include "perf/endpoint.h"
#include "perf/options.h"

namespace uroce::perf {

/// "retry_exceeded".
std::string_view status_name(WcStatus status);
/// What went wrong with a work request on the `endpoint`, and what can be done.
std::string explain(const Completion& completion, const Endpoint& endpoint, const Options& options);
/// How long a QP tries before it reports retry_exceeded, seconds; 0 when it tries for ever.
double retry_budget_s(uint8_t qp_timeout);

}  // namespace uroce::perf
