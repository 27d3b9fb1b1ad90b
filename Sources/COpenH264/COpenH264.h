// Cisco's OpenH264 (Debian's libopenh264-dev, BSD): its codecs are tables of functions, which Swift calls by these.
#ifndef KITH_COPENH264_H
#define KITH_COPENH264_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wels/codec_api.h>

/// A coded picture: pieces that lie in the encoder's memory until its next call.
struct kith_h264_frame {
    bool is_key;
    int count;
    const uint8_t *pieces[MAX_LAYER_NUM_OF_FRAME];
    int lengths[MAX_LAYER_NUM_OF_FRAME];
};

/// A decoded picture in the decoder's memory until its next call: planes of luma, blue and red difference.
struct kith_h264_picture {
    int width, height;
    int luma_stride, chroma_stride;
    const uint8_t *planes[3];
};

/// Makes an encoder of pictures of even width and height; NULL when the library refuses.
///
/// One slice and one thread, no frame left out, key frames only on request. `bits` is per second of `rate` pictures.
static inline ISVCEncoder *kith_h264_encoder(int width, int height, float rate, int bits) {
    ISVCEncoder *encoder = NULL;
    if (WelsCreateSVCEncoder(&encoder) != 0 || encoder == NULL) return NULL;
    int level = WELS_LOG_QUIET;
    (*encoder)->SetOption(encoder, ENCODER_OPTION_TRACE_LEVEL, &level);
    SEncParamExt options;
    memset(&options, 0, sizeof options);
    (*encoder)->GetDefaultParams(encoder, &options);
    options.iUsageType = SCREEN_CONTENT_REAL_TIME;
    options.iPicWidth = width;
    options.iPicHeight = height;
    options.fMaxFrameRate = rate;
    options.iTargetBitrate = bits;
    options.iMaxBitrate = UNSPECIFIED_BIT_RATE;
    options.iRCMode = RC_BITRATE_MODE;
    options.bEnableFrameSkip = false;
    options.iMinQp = 16;
    options.iMaxQp = 48;
    options.iTemporalLayerNum = 1;
    options.iSpatialLayerNum = 1;
    options.iComplexityMode = LOW_COMPLEXITY;
    options.uiIntraPeriod = 0;
    options.iNumRefFrame = 1;
    options.eSpsPpsIdStrategy = CONSTANT_ID;
    options.bPrefixNalAddingCtrl = false;
    options.iEntropyCodingModeFlag = 0;
    options.bEnableLongTermReference = false;
    options.iMultipleThreadIdc = 1;
    options.bEnableDenoise = false;
    options.bEnableSceneChangeDetect = false;
    options.bEnableAdaptiveQuant = false;
    options.bEnableBackgroundDetection = true;
    options.bEnableFrameCroppingFlag = true;
    SSpatialLayerConfig *layer = &options.sSpatialLayers[0];
    layer->iVideoWidth = width;
    layer->iVideoHeight = height;
    layer->fFrameRate = rate;
    layer->iSpatialBitrate = bits;
    layer->iMaxSpatialBitrate = UNSPECIFIED_BIT_RATE;
    layer->uiProfileIdc = PRO_BASELINE;
    layer->sSliceArgument.uiSliceMode = SM_SINGLE_SLICE;
    int format = videoFormatI420;
    if ((*encoder)->InitializeExt(encoder, &options) != 0
        || (*encoder)->SetOption(encoder, ENCODER_OPTION_DATAFORMAT, &format) != 0) {
        WelsDestroySVCEncoder(encoder);
        return NULL;
    }
    return encoder;
}

static inline void kith_h264_encoder_end(ISVCEncoder *encoder) {
    (*encoder)->Uninitialize(encoder);
    WelsDestroySVCEncoder(encoder);
}

/// Changes the bits per second of so many pictures; true when that was taken.
static inline bool kith_h264_encoder_rate(ISVCEncoder *encoder, int bits) {
    SBitrateInfo info = {SPATIAL_LAYER_ALL, bits};
    return (*encoder)->SetOption(encoder, ENCODER_OPTION_BITRATE, &info) == 0;
}

/// Encodes planes without gaps between their rows; `time` is in milliseconds. True when a frame came of it.
static inline bool kith_h264_encode(
    ISVCEncoder *encoder, int width, int height, const uint8_t *luma, const uint8_t *blue, const uint8_t *red,
    int64_t time, bool is_key, struct kith_h264_frame *frame) {
    SSourcePicture picture;
    memset(&picture, 0, sizeof picture);
    picture.iColorFormat = videoFormatI420;
    picture.iPicWidth = width;
    picture.iPicHeight = height;
    picture.iStride[0] = width;
    picture.iStride[1] = picture.iStride[2] = width / 2;
    // The library reads them only.
    picture.pData[0] = (unsigned char *)luma;
    picture.pData[1] = (unsigned char *)blue;
    picture.pData[2] = (unsigned char *)red;
    picture.uiTimeStamp = time;
    if (is_key) (*encoder)->ForceIntraFrame(encoder, true);
    SFrameBSInfo info;
    memset(&info, 0, sizeof info);
    if ((*encoder)->EncodeFrame(encoder, &picture, &info) != 0) return false;
    if (info.eFrameType == videoFrameTypeSkip || info.eFrameType == videoFrameTypeInvalid) return false;
    frame->is_key = info.eFrameType == videoFrameTypeIDR;
    frame->count = 0;
    for (int index = 0; index < info.iLayerNum && index < MAX_LAYER_NUM_OF_FRAME; index++) {
        const SLayerBSInfo *layer = &info.sLayerInfo[index];
        int length = 0;
        for (int unit = 0; unit < layer->iNalCount; unit++) length += layer->pNalLengthInByte[unit];
        frame->pieces[frame->count] = layer->pBsBuf;
        frame->lengths[frame->count++] = length;
    }
    return frame->count > 0;
}

/// One piece of a frame.
struct kith_h264_bytes {
    const uint8_t *bytes;
    int length;
};

static inline struct kith_h264_bytes kith_h264_piece(const struct kith_h264_frame *frame, int index) {
    struct kith_h264_bytes piece = {frame->pieces[index], frame->lengths[index]};
    return piece;
}

/// Makes a decoder that conceals nothing; NULL when the library refuses.
static inline ISVCDecoder *kith_h264_decoder(void) {
    ISVCDecoder *decoder = NULL;
    if (WelsCreateDecoder(&decoder) != 0 || decoder == NULL) return NULL;
    int level = WELS_LOG_QUIET;
    (*decoder)->SetOption(decoder, DECODER_OPTION_TRACE_LEVEL, &level);
    SDecodingParam options;
    memset(&options, 0, sizeof options);
    options.eEcActiveIdc = ERROR_CON_DISABLE;
    options.sVideoProperty.size = sizeof options.sVideoProperty;
    options.sVideoProperty.eVideoBsType = VIDEO_BITSTREAM_AVC;
    if ((*decoder)->Initialize(decoder, &options) != 0) {
        WelsDestroyDecoder(decoder);
        return NULL;
    }
    return decoder;
}

static inline void kith_h264_decoder_end(ISVCDecoder *decoder) {
    (*decoder)->Uninitialize(decoder);
    WelsDestroyDecoder(decoder);
}

/// Decodes one whole frame; true when it is a picture.
static inline bool kith_h264_decode(
    ISVCDecoder *decoder, const uint8_t *bytes, int count, struct kith_h264_picture *picture) {
    unsigned char *planes[3] = {NULL, NULL, NULL};
    SBufferInfo info;
    memset(&info, 0, sizeof info);
    if ((*decoder)->DecodeFrameNoDelay(decoder, bytes, count, planes, &info) != dsErrorFree) return false;
    if (info.iBufferStatus != 1 || planes[0] == NULL || planes[1] == NULL || planes[2] == NULL) return false;
    const SSysMEMBuffer *buffer = &info.UsrData.sSystemBuffer;
    if (buffer->iFormat != videoFormatI420) return false;
    picture->width = buffer->iWidth;
    picture->height = buffer->iHeight;
    picture->luma_stride = buffer->iStride[0];
    picture->chroma_stride = buffer->iStride[1];
    for (int index = 0; index < 3; index++) picture->planes[index] = planes[index];
    return true;
}

#endif
