#include "pmd_glue/interface_name.h"

#include <fmt/format.h>
#include <net/if.h>

#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {

unsigned InterfaceName::look(unsigned attached) {
  const std::string known = get();
  const std::string now = netdev_name(attached);
  if (now.empty()) return if_nametoindex(known.c_str());
  if (now == known) return attached;
  *this = now;
  note(fmt::format("interface {}: its name is {} now; the device stays on it, and needs the new name at the next start",
                   known, now));
  return attached;
}

}  // namespace uroce::glue
