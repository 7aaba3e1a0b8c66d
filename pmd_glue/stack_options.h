// Checks StackOptions and splits them by port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>
#include <uroce/stack.h>

#include "net/address.h"

namespace uroce::glue {

/// The name of the device on port `index`.
std::string device_name(std::size_t index);

/// Checks the settings that depend on no port: numbers and their ranges. Errors: EINVAL, naming the setting.
Result<void> check_options(const StackOptions& options);

/// A line of --version: the kernel that computes the ICRC unless a setting names another, and what else this CPU has.
std::string icrc_summary();

/// The options of port `index` (from 0): its own settings in place of the stack's.
StackOptions options_of_port(const StackOptions& options, std::size_t index);

/// Whether the addresses of port `index` (from 0) are those of its interface: StackOptions::kKernelAddresses.
bool has_kernel_addresses(const StackOptions& options, std::size_t index);

/// The addresses of port `index` (from 0) with Ethernet address `mac`: the configured ones or 10.117.0.(1 + index)/24,
/// then the IPv6 link-local one. Gateways must be on one of its subnets, or belong to another port. Errors: EINVAL.
Result<net::AddressTable> address_table(const StackOptions& options, std::size_t index, const EthAddr& mac);

}  // namespace uroce::glue
