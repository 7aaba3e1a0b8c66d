// Precompiled for the larger targets (hence no #pragma once): what nearly every source includes, and what takes longest
// to read. Sources include what they use all the same: builds with -Db_pch=false do without.
#ifndef UROCE_PCH_STD_H
#define UROCE_PCH_STD_H

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#endif
