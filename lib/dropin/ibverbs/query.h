// Queries that go through the operation tables of a context.
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size);
/// The clock of the completions' timestamps.
int query_rt_values(ibv_context* context, ibv_values_ex* values);
/// ibv_query_gid_type() of providers: 0, or -1 with errno.
int query_gid_type(ibv_context* context, uint8_t port, unsigned index, uint32_t* type);

}  // namespace uroce::dropin
