#pragma once
// (being written)
#include <memory>
#include "transport/qp_spec.h"
namespace uroce::transport {
class Qp;
/// A QP in RESET with all memory it will ever need. Errors: ENOMEM.
Result<std::unique_ptr<Qp, void (*)(Qp*)>> make_qp(const QpSpec& spec);
QpState state_of(const Qp& qp);
}  // namespace uroce::transport
