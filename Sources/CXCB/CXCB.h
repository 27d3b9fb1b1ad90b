// The system's XCB, the client side of the X11 protocol: Debian's libxcb1-dev, libxcb-shm0-dev, libxcb-damage0-dev,
// libxcb-xfixes0-dev, libxcb-randr0-dev, libxcb-xtest0-dev, libxcb-xinput-dev and libxcb-xkb-dev; and libxkbcommon-dev for
// the meanings of keys.
#ifndef KITH_CXCB_H
#define KITH_CXCB_H

#include <stdlib.h>
#include <unistd.h>

#include <xcb/xcb.h>
#include <xcb/xcbext.h>
#include <xcb/damage.h>
#include <xcb/randr.h>
#include <xcb/shm.h>
#include <xcb/xfixes.h>
#include <xcb/xinput.h>
#include <xcb/xkb.h>
#include <xcb/xtest.h>
#include <xkbcommon/xkbcommon.h>

/// The extensions of the protocol that are asked for.
enum kith_x11_extension {
    KITH_X11_SHM,
    KITH_X11_DAMAGE,
    KITH_X11_XFIXES,
    KITH_X11_RANDR,
    KITH_X11_XTEST,
    KITH_X11_XINPUT
};

/// Returns where the server keeps an extension; NULL when the connection failed. It belongs to the connection.
///
/// XCB has a variable for each, which Swift takes for one that any thread may change.
static inline const xcb_query_extension_reply_t *kith_x11_extension(
    xcb_connection_t *connection, enum kith_x11_extension extension) {
    switch (extension) {
    case KITH_X11_SHM: return xcb_get_extension_data(connection, &xcb_shm_id);
    case KITH_X11_DAMAGE: return xcb_get_extension_data(connection, &xcb_damage_id);
    case KITH_X11_XFIXES: return xcb_get_extension_data(connection, &xcb_xfixes_id);
    case KITH_X11_RANDR: return xcb_get_extension_data(connection, &xcb_randr_id);
    case KITH_X11_XTEST: return xcb_get_extension_data(connection, &xcb_test_id);
    case KITH_X11_XINPUT: return xcb_get_extension_data(connection, &xcb_input_id);
    }
    return NULL;
}

/// Has a window sent the events of XInput in `events` that come from `device`.
///
/// The request is a structure followed by its bits, which Swift cannot lay out.
static inline void kith_x11_select_input(
    xcb_connection_t *connection, xcb_window_t window, uint16_t device, uint32_t events) {
    struct {
        xcb_input_event_mask_t head;
        uint32_t events;
    } request = {{device, 1}, events};
    xcb_input_xi_select_events(connection, window, 1, &request.head);
}

#endif
