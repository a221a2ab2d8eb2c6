/** The parts of a VirtualMachineInstance that the stand-in uses, as the Kubernetes API names them. */
export interface VirtualMachineInstance {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly architecture?: "amd64" | "arm64" | "s390x";
    readonly domain: {
      readonly cpu?: {
        readonly cores?: number;
        readonly sockets?: number;
        readonly threads?: number;
        readonly maxSockets?: number;
        readonly dedicatedCpuPlacement?: boolean;
        readonly numa?: { readonly guestMappingPassthrough?: object };
      };
      readonly machine?: { readonly type: string };
      readonly memory?: {
        readonly guest?: string;
        readonly maxGuest?: string;
        readonly hugepages?: { readonly pageSize: string };
      };
      readonly resources?: {
        readonly requests?: Readonly<Record<string, string | number>>;
        readonly limits?: Readonly<Record<string, string | number>>;
      };
      readonly launchSecurity?: object;
      readonly devices: {
        readonly networkInterfaceMultiqueue?: boolean;
        readonly useVirtioTransitional?: boolean;
        readonly disks?: readonly { readonly name: string }[];
        readonly interfaces?: readonly VmiInterface[];
      };
    };
    readonly networks?: readonly VmiNetwork[];
    readonly resourceClaims?: readonly {
      readonly name: string;
      readonly resourceClaimName?: string;
      readonly resourceClaimTemplateName?: string;
    }[];
  };
  readonly status?: {
    readonly interfaces?: readonly { readonly name: string; readonly podInterfaceName?: string }[];
    readonly migrationState?: { readonly completed?: boolean; readonly failed?: boolean };
  };
}

/** `spec.domain.devices.interfaces[]`. */
export interface VmiInterface {
  readonly name: string;
  readonly binding?: { readonly name: string };
  readonly masquerade?: object;
  readonly bridge?: object;
  readonly sriov?: object;
  readonly model?: string;
  readonly macAddress?: string;
  readonly bootOrder?: number;
  readonly acpiIndex?: number;
  readonly pciAddress?: string;
  readonly state?: string;
}

/** `spec.networks[]`. */
export interface VmiNetwork {
  readonly name: string;
  readonly pod?: object;
  readonly multus?: { readonly networkName: string; readonly default?: boolean };
  readonly resourceClaim?: { readonly claimName: string; readonly requestName: string };
}
