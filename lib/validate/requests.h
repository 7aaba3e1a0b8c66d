// Checks of one work request by itself, whatever else is in flight.
#pragma once

#include <string>

#include <uroce/verbs/work_requests.h>

#include "validate/objects.h"
#include "validate/regions.h"

namespace uroce::validate {

void check_send(const Qp& qp, const SendRequest& request, const Regions& regions, const std::string& name,
                Found& found);
/// Entries are not looked at where there are more than `most`.
void check_entries(std::span<const Sge> sges, uint32_t most, const Owner& owner, bool written, const Regions& regions,
                   const std::string& name, Found& found);
/// The bytes that a request carries.
uint64_t length_of(const SendRequest& request);

}  // namespace uroce::validate
