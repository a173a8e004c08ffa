/* Topologies: boxes of nodes in rows; below each row the network as a bar, to which each box has two arrows. */
#include "launcher/report/svg/network.h"

#include <math.h>
#include <string.h>

enum { BOX = 205, GAP = 16, DEVICE = 34, DEVICE_GAP = 6, PAD = 10, LINKS = 58, BAR = 24, MOST_CUT = 120 };

double mt_network_stroke(double Bps) {
    if (!(Bps > 0) || !isfinite(Bps)) return 1.5;
    return fmin(fmax(3 + 3 * log10(Bps / 1e9), 1.5), 12);
}

/* Name and note. */
static double head_height(const struct mt_network_node *node) {
    return node->note[0] ? 44 : 28;
}

static double box_height(const struct mt_network_node *node) {
    return head_height(node) + node->ndevices * (DEVICE + DEVICE_GAP) + (node->inside[0] ? 26 : 0) + 4;
}

/* A line with a head at its second end, as thick as its rate; heads are drawn, as markers take no colour of their own.
 */
static void put_arrow(const struct mt_svg *svg, double x, double y1, double y2, double Bps, const char *tip) {
    double width = mt_network_stroke(Bps), head = width / 2 + 4, down = y2 > y1 ? 1 : -1;
    mt_svg_rect(svg, (struct mt_box2){x - width / 2, down > 0 ? y1 : y2 + head, width, fabs(y2 - y1) - head}, "link",
                tip);
    fprintf(svg->file, "<path class=\"link\" d=\"M%.2f %.2fL%.2f %.2fL%.2f %.2fZ\"/>\n", x - head, y2 - down * head,
            x + head, y2 - down * head, x, y2);
}

static void put_devices(const struct mt_svg *svg, const struct mt_network_node *node, struct mt_box2 box) {
    char text[MOST_CUT], whole[MOST_CUT];
    double y = box.y + head_height(node);
    for (int d = 0; d < node->ndevices; d++, y += DEVICE + DEVICE_GAP) {
        const struct mt_network_devices *one = &node->devices[d];
        snprintf(whole, sizeof whole, one->count > 1 ? "%d \xc3\x97 %.90s" : "%.0d%.90s",
                 one->count > 1 ? one->count : 0, one->name);
        mt_svg_rect(svg, (struct mt_box2){box.x + PAD, y, box.width - 2 * PAD, DEVICE}, "device", NULL);
        mt_svg_text(svg, box.x + PAD + 8, y + 14, MT_ANCHOR_START, "strong", "%s",
                    mt_svg_cut(whole, (box.width - 2 * PAD - 16) / 1.1, text, sizeof text));
        mt_svg_text(svg, box.x + PAD + 8, y + 28, MT_ANCHOR_START, "soft", "%s",
                    mt_svg_cut(one->note, box.width - 2 * PAD - 16, text, sizeof text));
    }
    if (!node->inside[0]) return;
    double stroke = mt_network_stroke(node->inside_Bps);
    mt_svg_rect(svg, (struct mt_box2){box.x + PAD, y + 2, box.width - 2 * PAD, stroke}, "link", node->inside);
    mt_svg_text(svg, box.x + PAD, y + 18 + stroke / 2, MT_ANCHOR_START, "", "%s",
                mt_svg_cut(node->inside, box.width - 2 * PAD, text, sizeof text));
}

static void put_node(const struct mt_svg *svg, const struct mt_network_node *node, struct mt_box2 box) {
    char text[MOST_CUT], whole[MOST_CUT];
    for (int shadow = node->count > 2 ? 2 : node->count - 1; shadow > 0; shadow--)
        mt_svg_rect(svg, (struct mt_box2){box.x + 3 * shadow, box.y - 3 * shadow, box.width, box.height}, "node", NULL);
    snprintf(whole, sizeof whole, node->count > 1 ? "%d \xc3\x97 %.90s" : "%.0d%.90s",
             node->count > 1 ? node->count : 0, node->name);
    mt_svg_rect(svg, box, "node", NULL);
    mt_svg_text(svg, box.x + PAD, box.y + 18, MT_ANCHOR_START, "strong", "%s",
                mt_svg_cut(whole, (box.width - 2 * PAD) / 1.1, text, sizeof text));
    mt_svg_text(svg, box.x + PAD, box.y + 34, MT_ANCHOR_START, "soft", "%s",
                mt_svg_cut(node->note, box.width - 2 * PAD, text, sizeof text));
    put_devices(svg, node, box);
}

static void put_links(const struct mt_svg *svg, const struct mt_network_node *node, struct mt_box2 box, double bar) {
    double middle = box.x + box.width / 2, bottom = box.y + box.height, at = (bottom + bar) / 2 + 4;
    char tip[MOST_CUT];
    snprintf(tip, sizeof tip, "sends %.100s", node->egress);
    put_arrow(svg, middle - 11, bottom + 1, bar - 1, node->egress_Bps, tip);
    mt_svg_text(svg, middle - 23, at, MT_ANCHOR_END, "", "%s", node->egress);
    snprintf(tip, sizeof tip, "receives %.100s", node->ingress);
    put_arrow(svg, middle + 11, bar - 1, bottom + 1, node->ingress_Bps, tip);
    mt_svg_text(svg, middle + 23, at, MT_ANCHOR_START, "", "%s", node->ingress);
}

void mt_network_draw(const void *data, struct mt_svg *svg) {
    const struct mt_network *network = data;
    int columns = (int)((svg->width - 8 + GAP) / (BOX + GAP));
    columns = columns < 1 ? 1 : columns > network->nnodes ? network->nnodes : columns;
    bool net = network->name[0];
    double width = fmin((svg->width - 8 - (columns - 1) * GAP) / columns, 1.25 * BOX), y = 10;
    int rows = (network->nnodes + columns - 1) / columns;
    for (int row = 0; row < rows; row++) {
        double most = 0;
        for (int i = row * columns; i < (row + 1) * columns && i < network->nnodes; i++)
            most = fmax(most, box_height(&network->nodes[i]));
        y += most + (net ? LINKS + BAR : 0) + 20;
    }
    svg->height = y;
    mt_svg_open(svg);
    y = 10;
    for (int row = 0; row < rows; row++) {
        double most = 0;
        int first = row * columns, end = first + columns < network->nnodes ? first + columns : network->nnodes;
        for (int i = first; i < end; i++) most = fmax(most, box_height(&network->nodes[i]));
        for (int i = first; i < end; i++) {
            struct mt_box2 box = {(i - first) * (width + GAP), y, width, most};
            put_node(svg, &network->nodes[i], box);
            if (net) put_links(svg, &network->nodes[i], box, y + most + LINKS);
        }
        y += most;
        if (net) {
            struct mt_box2 bar = {0, y + LINKS, fmax((end - first) * (width + GAP) - GAP, width), BAR};
            mt_svg_rect(svg, bar, "network", NULL);
            mt_svg_text(svg, bar.x + bar.width / 2, bar.y + 16, MT_ANCHOR_MIDDLE, "strong", "%s", network->name);
            y += LINKS + BAR;
        }
        y += 20;
    }
    mt_svg_close(svg);
}
