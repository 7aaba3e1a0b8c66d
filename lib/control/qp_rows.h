// Queue pairs as the operator sees them: names and values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace uroce::control {

class ControlQp;

using QpRow = std::vector<std::pair<std::string, std::string>>;

/// The most queue pairs that an engine describes at once. Their state is cold, so that this takes some microseconds.
inline constexpr std::size_t kQpsPerVisit = 8;

/// A row of each queue pair, in order; all are of one device. `psns`: with the PSNs, with which a stranger could forge
/// packets. Engines describe kQpsPerVisit at a time and serve between (EngineRunner::visit()). Any thread.
std::vector<QpRow> rows_of(std::span<const ControlQp* const> qps, bool psns);

}  // namespace uroce::control
