// Everything of the public API.
#pragma once

#include <uroce/cm.h>
#include <uroce/cm_types.h>
#include <uroce/daemon.h>
#include <uroce/daemon_options.h>
#include <uroce/engine_settings.h>
#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/flags.h>
#include <uroce/flow.h>
#include <uroce/stack.h>
#include <uroce/types.h>
#include <uroce/verbs.h>
#include <uroce/version.h>
