// The path MTU of a connection between hosts whose interfaces have different MTUs. The REQ names it, and the REP cannot
// change it: the passive side rejects what it cannot receive (IBTA vol. 1, 12.6.7.2, code 26), and says what it can.
#include "base/bytes.h"
#include "cm/manager_impl.h"

namespace uroce::cm {

bool Manager::Impl::connects_with_less(Id& id, const CmMessage& rejected) {
  const CmConnection* const before = id.agent->cm.find(id.connection);
  const bool asked = id.state == IdState::connecting && before != nullptr &&
                     rejected.reason == static_cast<uint16_t>(RejReason::invalid_path_mtu) && !rejected.info.empty();
  if (!asked) return false;
  const uint8_t possible = load8(rejected.info.data());
  if (possible < static_cast<uint8_t>(Mtu::mtu256) || possible >= static_cast<uint8_t>(before->path().mtu))
    return false;
  CmRequest request = before->request;
  request.path.mtu = static_cast<Mtu>(possible);
  auto again = id.agent->cm.connect(request, now);
  if (!again) return false;
  id.agent->connections.erase(id.connection);
  carry_out(*id.agent, id.agent->cm.destroy(id.connection, now));
  id.connection = again->id;
  id.agent->connections[id.connection] = &id;
  carry_out(*id.agent, std::move(again->actions));
  return true;
}

}  // namespace uroce::cm
